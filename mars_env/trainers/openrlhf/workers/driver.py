"""OpenRLHF's processes as the trainer of the loop (`mars_env.trainers.loop.fit`), for one policy or several.

Advantages are computed over whole groups, whoever acted in them, and each policy is trained on its own turns.
"""

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ray
from openrlhf.trainer.ray.vllm_engine import batch_vllm_engine_call

from mars_env.errors import ConfigError, StoreError
from mars_env.loggers import Logger
from mars_env.models.preflight import preflight
from mars_env.rollout.contexts import require_room
from mars_env.rollout.segments import SegmentedModel
from mars_env.sync import run_sync
from mars_env.trainers.advantages import advantage_stats, over_batch
from mars_env.trainers.assembly import agents_by_name, training_game, training_problems
from mars_env.trainers.checks import check_agents
from mars_env.trainers.config import estimator_of
from mars_env.trainers.evaluation import evaluation_after
from mars_env.trainers.loop import fit
from mars_env.trainers.metrics import StepMetrics, role_metrics
from mars_env.trainers.openrlhf.policies import arguments_of, take_common_checkpoint
from mars_env.trainers.openrlhf.rollouts.engines import EnginesModel, RayEngine, require_alive
from mars_env.trainers.openrlhf.translation import policies_of, scheduled_steps
from mars_env.trainers.openrlhf.workers.processes import install_engines, load_models, placed, require_gpus
from mars_env.trainers.openrlhf.workers.trainer import PolicyTrainer
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.rollouts import rollouts
from mars_env.trainers.samples import TurnSample, turn_samples
from mars_env.trainers.scorable import scorable_groups
from mars_env.trainers.team import Team
from mars_env.types import Group, Model


def train_policies(
    settings: RunSettings, args: SimpleNamespace, loggers: Sequence[Logger]
) -> list[StepMetrics]:
    """Train all policies, until the steps of the settings are done; the metrics of each update.

    OpenRLHF's flags apply to each policy: ``--actor.num_gpus_per_node 4`` means 4 GPUs per policy.
    """
    game, problems = training_game(settings), training_problems(settings)
    trainer = start_trainer(settings, args)
    agents = agents_by_name(settings, game.rules, trainer.models(), problems)
    team = Team(agents, trainer.policies)
    trainer.frozen = team.frozen
    trained = check_agents(agents, settings.train, trainer.policies, backend="OpenRLHF")
    run_sync(preflight(agents, game, trained))
    run_sync(require_room(game.rules, agents, problems, game.grader))

    history = run_sync(
        fit(
            trainer,
            lambda done: rollouts(game, team, problems, settings, done=done, directory=args.ckpt.path),
            settings.steps,
            refresh=Engines(args, trainer.policies),
            directory=args.ckpt.path,
            checkpoint_every=settings.checkpoint_every,
            loggers=loggers,
            evaluate=partial(evaluation_after, settings, agents) if settings.evaluation.every else None,
        )
    )
    trainer.save_models()
    return history


def start_trainer(settings: RunSettings, args: SimpleNamespace) -> "OpenRLHFTrainer":
    """Start the processes of all policies, and load their weights."""
    arguments = _arguments(settings, args)
    if not ray.is_initialized():
        parallelism = os.environ.get("TOKENIZERS_PARALLELISM", "false")
        ray.init(runtime_env={"env_vars": {"TOKENIZERS_PARALLELISM": parallelism}})
    require_gpus(arguments.values())
    install_engines(settings.engine)
    processes = {name: placed(settings.train, own) for name, own in arguments.items()}
    load_models(processes.values(), scheduled_steps(settings))
    policies = {name: PolicyTrainer(settings, own) for name, own in processes.items()}
    return OpenRLHFTrainer(settings, policies)


class OpenRLHFTrainer:
    """What the loop needs of a trainer. All policies are trained at the same time, each on its own turns.

    `frozen` are the policies that others hold.
    """

    def __init__(self, settings: RunSettings, policies: Mapping[str, PolicyTrainer]) -> None:
        self.settings, self.policies = settings, policies
        self.steps, self.frozen = 0, frozenset[str]()
        self._engines = {name: list(map(RayEngine, own.vllm_engines)) for name, own in policies.items()}
        self._pool = ThreadPoolExecutor(max_workers=len(policies))

    def models(self) -> dict[str, Model]:
        """The engines of each policy as a model of its agents, in segments if the settings say so."""
        segment, models = self.settings.segment_tokens, dict[str, Model]()
        for name, policy in self.policies.items():
            context = policy.args.data.max_len
            model = EnginesModel(self._engines[name], policy.tokenizer, context, name=name)
            models[name] = model if segment is None else SegmentedModel(model, segment, context=context)
        return models

    def resume(self, directory: str | Path) -> bool:
        """Load the checkpoints that the arguments name; whether there are any."""
        updates = {policy.resume().get("update", 0) for policy in self.policies.values()}
        if len(updates) != 1:
            raise StoreError(f"the policies' checkpoints are of different updates: {sorted(updates)}")
        [self.steps] = updates
        return self.steps > 0

    def step(self, groups: Sequence[Group]) -> StepMetrics:
        """Update all policies on the groups of one rollout."""
        require_alive([engine for engines in self._engines.values() for engine in engines])
        began, train, frozen = time.perf_counter(), self.settings.train, self.frozen
        groups, unscorable = scorable_groups(groups, train, frozen, required=True)
        advantages = estimator_of(train)(groups)
        samples = turn_samples(groups, train, advantages=advantages, frozen=frozen)
        statuses = self._update(samples)
        self.steps += 1
        return StepMetrics(
            self.steps,
            seconds=time.perf_counter() - began,
            advantages=advantage_stats(over_batch(groups, train.batch_roles), advantages),
            roles=role_metrics(groups, samples),
            policies=statuses,
            unscorable=unscorable,
        )

    def _update(self, samples: Sequence[TurnSample]) -> dict[str, dict[str, float]]:
        rows = {}
        for name, policy in self.policies.items():
            if own := [sample for sample in samples if sample.policy == name]:
                rows[name] = policy.rows(own)
        updates = {name: self._pool.submit(self.policies[name].update, own) for name, own in rows.items()}
        return {name: updates[name].result() if name in updates else {} for name in self.policies}

    def save(self, directory: str | Path) -> None:
        """Save a checkpoint of all policies."""
        ray.get([ref for policy in self.policies.values() for ref in policy.save(self.steps)])

    def save_models(self) -> None:
        """Write each policy's weights as an ordinary checkpoint."""
        policies = self.policies.values()
        ray.get([ref for policy in policies for ref in policy.actor_model_group.async_save_model()])


class Engines:
    """Wakes engines that sleep during updates, and proves that they have the new weights."""

    def __init__(self, args: SimpleNamespace, policies: Mapping[str, PolicyTrainer]) -> None:
        self._handles = [handle for policy in policies.values() for handle in policy.vllm_engines]
        self._sleeps = args.vllm.enable_sleep

    def __call__(self, policies: Mapping[str, Any]) -> dict[str, float]:
        """Wake the engines; the share of the tensors that are compared."""
        if self._sleeps:
            batch_vllm_engine_call(self._handles, "wake_up")
        return {f"policy/{name}/weights_read": policy.prove_weights() for name, policy in policies.items()}

    def sleep(self) -> None:
        """Let the engines give their memory to the trainer, if the flags say so."""
        if self._sleeps:
            batch_vllm_engine_call(self._handles, "sleep")


def _arguments(settings: RunSettings, args: SimpleNamespace) -> dict[str, SimpleNamespace]:
    policies = policies_of(settings)
    if len(policies) == 1:
        return dict.fromkeys(policies, args)
    if args.ckpt.max_num < 2:
        raise ConfigError("a run of several policies may end while it saves: set openrlhf.ckpt.max_num to 2")
    folders = [Path(args.ckpt.path) / name / "_actor" for name in policies]
    resumed = take_common_checkpoint(folders) if args.ckpt.load_enable else None
    own = {name: arguments_of(args, name, path, resumed) for name, path in policies.items()}
    for each in own.values():
        each.ckpt.load_enable = resumed is not None
    return own
