"""The training run of one policy or several, with OpenRLHF's processes. Imports OpenRLHF, Ray and vLLM.

    environment + team ──> groups ──> samples by policy ──> one OpenRLHF trainer a policy ──> its engines
          ^                                                                                        │
          └─────────────────────────── agents, each on its policy's engines ───────────────────────┘

Rollouts involve all policies. Advantages are computed over whole groups, whoever acted in them, and each
policy is trained on its own turns. Each has its own trainer, optimizer, engines and checkpoints. An update
does not change a policy that has no turn in it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ray
import torch
from openrlhf.trainer.ppo_trainer import prepare_datasets
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from openrlhf.utils import get_strategy
from openrlhf.utils.logging_utils import init_logger

from mars_env.agents.registry import make_agents, roles_of
from mars_env.envs.rules import Rules
from mars_env.errors import ConfigError, StoreError
from mars_env.rollout.pipeline import UpdateBatch
from mars_env.rollout.segments import SegmentedModel
from mars_env.trainers.openrlhf.flags import sampling_of
from mars_env.trainers.openrlhf.policies import arguments_of, plays, tag_of, take_common_checkpoint
from mars_env.trainers.openrlhf.rollouts.engines import EnginesModel, RayEngine, refuse_dead
from mars_env.trainers.openrlhf.rollouts.feed import RolloutFeed
from mars_env.trainers.openrlhf.rollouts.figures import evaluation_figures, training_figures
from mars_env.trainers.openrlhf.rollouts.problems import DrawnProblems, by_id
from mars_env.trainers.openrlhf.rollouts.record import Record
from mars_env.trainers.openrlhf.rollouts.responses import responses, shape_of
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.trainers.openrlhf.team import POLICY, make_team
from mars_env.trainers.openrlhf.workers.processes import (
    Trained,
    awake,
    install_engines,
    load_models,
    placed,
    require_gpus,
)
from mars_env.trainers.openrlhf.workers.trainer import PolicyTrainer, scheduled_steps
from mars_env.trainers.samples import TurnSample, turn_samples
from mars_env.types import Agent, Model

log = init_logger(__name__)


def train(settings: TeamSettings, args: SimpleNamespace) -> None:
    """Train all policies, for ``--train.num_episodes`` passes over the problems.

    OpenRLHF's flags apply to each policy: ``--actor.num_gpus_per_node 4`` means 4 GPUs per policy.

    Args:
        settings: The team's. Without policies, ``--actor.model_name_or_path`` is the only one.
        args: OpenRLHF's arguments, parsed.

    Raises:
        ConfigError: The settings do not fit.
        StoreError: The policies' checkpoints are of different updates.
    """
    run = _Run(settings, args)
    try:
        run.resume()
        while (batch := run.next_batch()) is not None:
            run.update(batch)
        run.save_models()
    finally:
        run.close()


class _Run:
    """The policies, their common rollouts, and the run's progress."""

    def __init__(self, settings: TeamSettings, args: SimpleNamespace) -> None:
        self.settings, self.args = settings, args
        self.config, self.shape = settings.config, shape_of(args)
        self.game = settings.game()
        own = self._arguments()
        if not ray.is_initialized():
            ray.init(
                runtime_env={
                    "env_vars": {"TOKENIZERS_PARALLELISM": os.environ.get("TOKENIZERS_PARALLELISM", "false")}
                }
            )
        require_gpus(own.values())
        install_engines(settings)
        self.policies = {name: placed(one) for name, one in own.items()}
        self._engines: list[RayEngine] = []
        self.prompts = self._prompts()
        steps = scheduled_steps(settings, args, len(self.prompts))
        load_models(self.policies.values(), steps)
        for name, policy in self.policies.items():
            policy.trainer = PolicyTrainer(
                settings, policy.strategy, policy.actors, None, None, policy.reference, policy.engines,
                policy.tokenizer,
            )  # fmt: skip
            policy.model = self._model(name, policy)
        if settings.eval_problems:  # so that a misfit is reported now
            self._agents(settings.evaluation_game().rules, evaluation=True)
        self.record: Record | None = None
        self.pool = ThreadPoolExecutor(max_workers=len(self.policies))
        self.feed = RolloutFeed(
            self.game,
            self._agents(self.game.rules),
            self.prompts,
            args.rollout.batch_size,
            settings,
            lambda name: self.policies[name].trainer.version if name in self.policies else None,
        )

    def resume(self) -> None:
        """Load the checkpoint that all policies have in common, if there is one."""
        states = {name: policy.trainer.init_checkpoint_states() for name, policy in self.policies.items()}
        updates = {states[name].get("update", 0) for name in self.policies}
        if len(updates) != 1:
            raise StoreError(f"the policies' checkpoints are of different updates: {sorted(updates)}")
        for name, policy in self.policies.items():
            policy.step = states[name]["global_step"]
            if policy.step:
                policy.trainer.broadcast_to_vllm()
        if drawn := next(iter(states.values()))["data_loader_state_dict"]:
            self.prompts.load_state_dict(drawn)

    def next_batch(self) -> UpdateBatch | None:
        """The batch of the next update; None if everything is trained."""
        with awake(self.args, self._handles):
            batch = self.feed.next()
        refuse_dead(self._engines)
        return batch

    def update(self, batch: UpdateBatch) -> None:
        """Train all policies at the same time, each on its own turns of a batch."""
        samples = turn_samples(batch.groups, self.config)
        own = {name: [s for s in samples if s.policy == name] for name in self.policies}
        rows = {name: self._rows(name, batch, mine) for name, mine in own.items() if mine}
        figures = training_figures(
            batch, samples, self.config, waited=self.feed.waited, between=self.feed.between
        )
        if self.settings.record is not None:
            self.record = self.record or Record(self.settings.record, self.prompts.updates - 1)
            versions = {name: policy.trainer.version for name, policy in self.policies.items()}
            self.record.note(self.prompts.updates, versions, batch, samples)
        began = time.perf_counter()
        statuses = dict(zip(rows, self.pool.map(self._train, rows, rows.values()), strict=True))
        update = self.prompts.updates
        for name, policy in self.policies.items():
            status = {
                **statuses.get(name, {}),
                **figures,
                **self.feed.verifier,
                "team/own_samples": float(len(own[name])),
            }
            status["timing/update"] = time.perf_counter() - began
            shown = {key: value for key, value in status.items() if key != "generated_samples"}
            log.info(f"Update {update}, policy {name}, its step {policy.step}: {shown}")
            if update % self.args.logger.logging_steps == 0:
                for logger in policy.trainer.loggers:
                    logger.log_train(update, status)
        if self.settings.eval_problems and self.args.eval.steps > 0 and update % self.args.eval.steps == 0:
            self._evaluate(update)
        if self.args.ckpt.save_steps > 0 and update % self.args.ckpt.save_steps == 0:
            self._save(update)

    def save_models(self) -> None:
        """Write each policy's weights as an ordinary checkpoint."""
        ray.get([ref for policy in self.policies.values() for ref in policy.actors.async_save_model()])

    def close(self) -> None:
        """End the rollouts and close the loggers."""
        with ExitStack() as closing:  # each, also where another fails; the last one added first
            for policy in self.policies.values():
                for logger in policy.trainer.loggers:
                    closing.callback(logger.close)
            closing.callback(self.pool.shutdown)
            closing.callback(self.feed.close)

    # ---------------------------------------------------------------------------------------- parts

    def _arguments(self) -> dict[str, SimpleNamespace]:
        """OpenRLHF's arguments for each policy: those of the run, or with a policy's own directories."""
        args, policies = self.args, self.settings.policies
        if not policies:
            return {POLICY: args}
        if args.ckpt.max_num < 2:
            raise ConfigError(
                "several policies need two checkpoints of each, in case a run ends while it saves: "
                "set --ckpt.max_num to 2 or more"
            )
        folders = [Path(args.ckpt.path) / name / "_actor" for name in policies]
        resumed = take_common_checkpoint(folders) if args.ckpt.load_enable else None
        own = {name: arguments_of(args, name, path, resumed) for name, path in policies.items()}
        for one in own.values():
            one.ckpt.load_enable = resumed is not None
        return own

    def _prompts(self) -> DrawnProblems:
        """OpenRLHF's loader, which draws the problems for all policies."""
        torch.manual_seed(self.args.train.seed)  # for the order in which the loader draws
        tokenizer = next(iter(self.policies.values())).tokenizer  # required, but not used
        loader, _, _ = prepare_datasets(get_strategy(self.args), tokenizer)
        return DrawnProblems(loader, by_id(self.settings.training_problems()), self.args.train.num_episodes)

    def _model(self, name: str, policy: Trained) -> Model:
        """The engines of a policy as the model of its agents, in segments if the settings say so."""
        engines = list(map(RayEngine, policy.engines))
        self._engines += engines
        context, segment = self.args.data.max_len, self.settings.segment_tokens
        model = EnginesModel(engines, policy.tokenizer, context, name=name)
        return model if segment is None else SegmentedModel(model, segment, context=context)

    def _agents(self, rules: Rules[Any], *, evaluation: bool = False) -> dict[str, Agent]:
        names, roles = rules.possible_agents, roles_of(rules)
        sampling = sampling_of(self.settings, self.args, evaluation=evaluation)
        whose = plays(names, self.policies, self.settings.plays, self.settings.others)
        agents: dict[str, Agent] = {}
        for name, policy in self.policies.items():
            assert policy.model is not None
            mine = [agent for agent in names if whose.get(agent) == name]
            agents |= make_team(self.settings, mine, policy.model, sampling, name, roles=roles)
        frozen = [agent for agent in names if agent not in whose]
        agents |= make_agents(self.settings.others, frozen, sampling=sampling, roles=roles) if frozen else {}
        return {name: agents[name] for name in names}

    def _rows(self, name: str, batch: UpdateBatch, samples: Sequence[TurnSample]) -> list[Any]:
        policy = self.policies[name]
        made = responses(
            samples,
            self.shape,
            temperature=self.args.rollout.temperature,
            padding_token=policy.tokenizer.pad_token_id,
            ages=batch.age_by_group,
        )
        maker = SamplesGenerator(policy.strategy, None, None, policy.tokenizer, policy.engines)
        context = self.args.data.max_len
        return [maker._process_response_into_experience(row, max_len=context) for row in made]

    def _train(self, name: str, rows: list[Any]) -> dict[str, Any]:
        policy = self.policies[name]
        status, policy.step = policy.trainer.train_step(rows, policy.step)
        return dict(status)

    def _states(self, update: int, policy: Trained) -> dict[str, Any]:
        """What a checkpoint holds beside the weights. Rollouts under way are not saved, but played again."""
        return {
            "update": update,
            "global_step": policy.step,
            "episode": 0,
            "total_consumed_prompts": 0,
            "data_loader_state_dict": self.prompts.state_dict(),
        }

    def _save(self, update: int) -> None:
        """Save all policies under one tag."""
        refs = []
        for policy in self.policies.values():
            trainer = policy.trainer
            states = self._states(update, policy) | {
                "best_eval_metric_key": trainer.best_eval_metric_key,
                "best_eval_metric_value": trainer.best_eval_metric_value,
                "latest_eval_metric_value": trainer._latest_eval_metric_value,
            }
            refs += policy.actors.async_run_method(
                "save_checkpoint",
                tag=tag_of(update),
                client_states=states,
                metric_value=trainer._latest_eval_metric_value,
                metric_key=trainer.best_eval_metric_key or None,
            )
        ray.get(refs)

    def _evaluate(self, update: int) -> None:
        """Play the evaluation's problems with the present weights."""
        problems, game = self.settings.evaluation_problems(), self.settings.evaluation_game()
        with awake(self.args, self._handles):
            trees = self.feed.play(
                game,
                self._agents(game.rules, evaluation=True),
                problems,
                samples=self.args.eval.n_samples_per_prompt,
                concurrency=self.args.rollout.batch_size * self.settings.group,
            )
        figures = evaluation_figures(trees, problems.name)
        log.info(f"Evaluation at update {update}: {figures}")
        for policy in self.policies.values():
            for logger in policy.trainer.loggers:
                logger.log_eval(update, figures)
        if not self.settings.policies:  # several are saved together, under one tag
            [policy] = self.policies.values()
            policy.trainer.save_best_checkpoint(figures, update, self._states(update, policy))

    @property
    def _handles(self) -> list[Any]:
        """Handles of all engines of all policies."""
        return [engine for policy in self.policies.values() for engine in policy.engines]
