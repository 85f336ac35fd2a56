"""The training run of one policy or several, with OpenRLHF's processes.

    environment + team ──> groups ──> samples by policy ──> one OpenRLHF trainer a policy ──> its engines
          ^                                                                                        │
          └─────────────────────────── agents, each on its policy's engines ───────────────────────┘

Rollouts involve all policies. Advantages are computed over whole groups, whoever acted in them, and each
policy is trained on its own turns. Each has its own trainer, optimizer, engines and checkpoints. An update
does not change a policy that has no turn in it.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ray
from openrlhf.utils.logging_utils import init_logger

from mars_env.agents.registry import roles_of
from mars_env.envs.rules import Rules
from mars_env.errors import ConfigError, StoreError
from mars_env.models.preflight import preflight
from mars_env.rollout import Job, collect
from mars_env.rollout.pipeline import UpdateBatch
from mars_env.rollout.segments import SegmentedModel
from mars_env.sync import run_sync
from mars_env.trainers.checks import check_agents
from mars_env.trainers.openrlhf.flags import sampling_of
from mars_env.trainers.openrlhf.policies import arguments_of, take_common_checkpoint
from mars_env.trainers.openrlhf.rollouts.engines import EnginesModel, RayEngine, require_alive
from mars_env.trainers.openrlhf.rollouts.feed import RolloutFeed
from mars_env.trainers.openrlhf.rollouts.metrics import Verifications, evaluation_metrics, training_metrics
from mars_env.trainers.openrlhf.rollouts.record import UpdateRecord
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.trainers.openrlhf.team import POLICY, agents_by_name
from mars_env.trainers.openrlhf.workers.processes import (
    engines_awake,
    install_engines,
    load_models,
    placed,
    require_gpus,
)
from mars_env.trainers.openrlhf.workers.trainer import PolicyTrainer, scheduled_steps
from mars_env.trainers.rollouts import rollouts
from mars_env.trainers.samples import turn_samples
from mars_env.trainers.team import Team
from mars_env.types import Agent, Model

log = init_logger(__name__)


def train_policies(settings: TeamSettings, args: SimpleNamespace) -> None:
    """Train all policies, for ``--train.num_episodes`` passes over the problems.

    OpenRLHF's flags apply to each policy: ``--actor.num_gpus_per_node 4`` means 4 GPUs per policy.

    Raises:
        ConfigError: The settings do not fit.
        StoreError: The policies' checkpoints are of different updates.
    """
    run = _Run(settings, args)
    try:
        while (batch := run.next_batch()) is not None:
            run.update(batch)
        run.save_models()
    finally:
        run.close()


class _Run:
    """The policies, their common rollouts, and the run's progress."""

    def __init__(self, settings: TeamSettings, args: SimpleNamespace) -> None:
        self.settings, self.args = settings, args
        arguments = _arguments(settings, args)
        if not ray.is_initialized():
            parallelism = os.environ.get("TOKENIZERS_PARALLELISM", "false")
            ray.init(runtime_env={"env_vars": {"TOKENIZERS_PARALLELISM": parallelism}})
        require_gpus(arguments.values())
        install_engines(settings)
        processes = {name: placed(each) for name, each in arguments.items()}
        problems = settings.training_problems()[: args.data.max_samples]
        load_models(processes.values(), scheduled_steps(settings, args, len(problems)))
        self.policies = {name: PolicyTrainer(settings, each) for name, each in processes.items()}
        self.engines = {name: list(map(RayEngine, each.engines)) for name, each in processes.items()}
        self.models = {name: self._model(name) for name in self.policies}
        self.handles = [handle for each in processes.values() for handle in each.engines]
        if settings.eval_problems:  # so that a misfit is reported now
            self._agents(settings.evaluation_game().rules, evaluation=True)
        game = settings.game()
        self.team = team = Team(self._agents(game.rules), self.policies)
        trained = check_agents(team.agents, settings, self.policies, door="OpenRLHF")
        run_sync(preflight(team.agents, game, trained))
        updates = {policy.resume().get("update", 0) for policy in self.policies.values()}
        if len(updates) != 1:
            raise StoreError(f"the policies' checkpoints are of different updates: {sorted(updates)}")
        [done] = updates
        batches = rollouts(
            game,
            team,
            problems,
            settings.run(args.rollout.batch_size),
            done=done,
            directory=args.ckpt.path,
            passes=args.train.num_episodes,
        )
        self.feed, self.verifications = RolloutFeed(batches), Verifications()
        self.record = UpdateRecord(settings.record, done)
        self.pool = ThreadPoolExecutor(max_workers=len(self.policies))

    def next_batch(self) -> UpdateBatch | None:
        """The batch of the next update; None if everything is trained."""
        with engines_awake(self.args, self.handles):
            for policy in self.policies.values():
                policy.probe()
            batch = self.feed.next()
        require_alive([engine for engines in self.engines.values() for engine in engines])
        return batch

    def update(self, batch: UpdateBatch) -> None:
        """Train all policies at the same time, each on its own turns of a batch."""
        update, feed = batch.version + 1, self.feed
        samples = turn_samples(batch.groups, self.settings, frozen=self.team.frozen)
        own = {name: [s for s in samples if s.policy == name] for name in self.policies}
        metrics = training_metrics(batch, samples, self.settings, waited=feed.waited, between=feed.between)
        versions = {name: policy.version for name, policy in self.policies.items()}
        self.record.note(update, versions, batch, samples)
        began = time.perf_counter()
        trained = {
            name: self.pool.submit(self.policies[name].update, mine, batch.age_by_group)
            for name, mine in own.items()
            if mine
        }
        statuses = {name: future.result() for name, future in trained.items()}
        metrics |= self.verifications.metrics(batch) | {"timing/update": time.perf_counter() - began}
        for name, policy in self.policies.items():
            status = {**statuses.get(name, {}), **metrics, "team/own_samples": float(len(own[name]))}
            status["team/probe_gap"] = policy.probe_gap
            shown = {key: value for key, value in status.items() if key != "generated_samples"}
            log.info(f"Update {update}, policy {name}, its step {policy.step}: {shown}")
            if update % self.args.logger.logging_steps == 0:
                for logger in policy.loggers:
                    logger.log_train(update, status)
        if self.settings.eval_problems and self.args.eval.steps > 0 and update % self.args.eval.steps == 0:
            self._evaluate(update)
        if self.args.ckpt.save_steps > 0 and update % self.args.ckpt.save_steps == 0:
            ray.get([ref for policy in self.policies.values() for ref in policy.save(update)])

    def save_models(self) -> None:
        """Write each policy's weights as an ordinary checkpoint."""
        policies = self.policies.values()
        ray.get([ref for policy in policies for ref in policy.actor_model_group.async_save_model()])

    def close(self) -> None:
        """End the rollouts and close the loggers."""
        with ExitStack() as closing:  # each, also where another fails; the last one added first
            for policy in self.policies.values():
                for logger in policy.loggers:
                    closing.callback(logger.close)
            closing.callback(self.pool.shutdown)
            closing.callback(self.feed.close)

    def _model(self, name: str) -> Model:
        """The engines of a policy as the model of its agents, in segments if the settings say so."""
        context, segment = self.args.data.max_len, self.settings.segment_tokens
        model = EnginesModel(self.engines[name], self.policies[name].tokenizer, context, name=name)
        return model if segment is None else SegmentedModel(model, segment, context=context)

    def _agents(self, rules: Rules[Any], *, evaluation: bool = False) -> dict[str, Agent]:
        sampling = sampling_of(self.settings, self.args, evaluation=evaluation)
        return agents_by_name(
            self.settings, rules.possible_agents, self.models, sampling, roles=roles_of(rules)
        )

    def _evaluate(self, update: int) -> None:
        """Play the evaluation's problems with the present weights."""
        problems, game = self.settings.evaluation_problems(), self.settings.evaluation_game()
        with engines_awake(self.args, self.handles):
            agents, samples = self._agents(game.rules, evaluation=True), self.args.eval.n_samples_per_prompt
            jobs = [Job(problem, sample) for sample in range(samples) for problem in problems]
            at_once = self.args.rollout.batch_size * self.settings.group
            trees = run_sync(collect(game, agents, jobs, seed=self.settings.seed, concurrency=at_once))
        metrics = evaluation_metrics(trees, problems.name)
        log.info(f"Evaluation at update {update}: {metrics}")
        for policy in self.policies.values():
            for logger in policy.loggers:
                logger.log_eval(update, metrics)
        if not self.settings.policies:  # several are saved together, under one tag
            policy = self.policies[POLICY]
            policy.save_best_checkpoint(metrics, update, policy.progress(update))


def _arguments(settings: TeamSettings, args: SimpleNamespace) -> dict[str, SimpleNamespace]:
    """OpenRLHF's arguments for each policy: those of the run, or with a policy's own directories."""
    if not settings.policies:
        return {POLICY: args}
    if args.ckpt.max_num < 2:
        raise ConfigError("a run of several policies may end while it saves: set --ckpt.max_num 2")
    folders = [Path(args.ckpt.path) / name / "_actor" for name in settings.policies]
    resumed = take_common_checkpoint(folders) if args.ckpt.load_enable else None
    own = {name: arguments_of(args, name, path, resumed) for name, path in settings.policies.items()}
    for each in own.values():
        each.ckpt.load_enable = resumed is not None
    return own
