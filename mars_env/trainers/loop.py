"""The training loop: play, update, refresh the models. All algorithms share it; read it from top to bottom.

    problems ──> rollouts ──> groups, so many versions old ──> LocalTrainer.step ──> new weights
                    ^                                                                    │
                    └───────────────────────────── refresh ──────────────────────────────┘

`train` assembles a run, `fit` is the loop, and `rollouts` makes its groups: MarsRL's groups of outputs for
one input or MARS2's trees, in step with the trainer or ahead of it, as `RunSettings` says.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from mars_env.checks import require_integer
from mars_env.envs import Game, grouped
from mars_env.envs.contexts import require_room
from mars_env.envs.rewards import REWARD_FAULT
from mars_env.errors import ConfigError, ModelError
from mars_env.loggers import Logger
from mars_env.models.preflight import models_of, preflight
from mars_env.problems import ProblemSet
from mars_env.rollout import Job, UpdateBatch
from mars_env.rollout.groups import step_jobs
from mars_env.rollout.pipeline import Training, pipeline
from mars_env.rollout.segments import SegmentedModel
from mars_env.sync import maybe_await
from mars_env.text import logger, shown
from mars_env.trainers.batches import require_trainable
from mars_env.trainers.checkpoints import require_steps
from mars_env.trainers.config import require_limit, require_roles
from mars_env.trainers.estimators import teaches_nothing
from mars_env.trainers.identity import described_game, described_length, described_team, fingerprints
from mars_env.trainers.local import LocalTrainer, Policy
from mars_env.trainers.lockstep import graded_in_lockstep
from mars_env.trainers.lost_trees import LostTrees
from mars_env.trainers.metrics import StepMetrics
from mars_env.trainers.recipes import RunSettings, checked
from mars_env.trainers.team import Refresh, Team
from mars_env.trainers.update_log import UpdateLog
from mars_env.types import Sampling, TrainingAgent, role_of

log = logger(__name__)

Batches = Callable[[int], AsyncGenerator[UpdateBatch]]
"""Makes the batches of all further updates, from the number of updates done before."""

LEDGER = "trained.jsonl"
"""A file beside the checkpoints: which groups each update has trained, so that none is trained twice."""


async def train(
    game: Game,
    team: Team,
    problems: ProblemSet,
    settings: RunSettings,
    *,
    directory: str | Path | None = None,
    checkpoint_every: int = 10,
    loggers: Sequence[Logger] = (),
) -> list[StepMetrics]:
    """Train a team until `settings.steps` updates are done.

    With ``pipeline.staleness=0`` rollouts and updates alternate, and on a CPU a run that was killed and
    resumed ends with bitwise the same weights as an uninterrupted one. With a higher value, rollouts of later
    steps continue during an update. Every turn records the versions that sampled it; no turn is trained that
    is older than the bound, none is trained twice, and dropped turns are counted.

    Args:
        game: The environment's game: ``make("...", schedule="training").game``.
        team: Who plays and what is trained (`mars_env.trainers.make_team`).
        problems: Training problems.
        settings: Everything else: `MARSRL`, `MARS2`, or your own.
        directory: For checkpoints of all policies. The same call continues from the newest one; a call with
            another game, other agents or problems, or another reference is refused. Trees that were under way
            when the run stopped are played again, by the policy of the checkpoint.
        checkpoint_every: Updates between two checkpoints; the last update always gets one.
        loggers: Get the figures of every update.

    Returns:
        The figures of the updates that this call made.

    Raises:
        ConfigError: Team, game and settings do not fit together, a role that is trained has no reward, or an
            agent can get prompts that leave less room than its limit in the model's context, or a server
            refuses an agent or gives no log-probabilities of one that is trained.
        ModelError: A server of an agent cannot be reached, or as many trees in a row as a step has could not
            be played. The same call continues from the newest checkpoint.
    """
    listed = () if getattr(problems, "generated", False) else problems
    if bare := next((problem for problem in listed if not game.can_grade(problem)), None):
        raise ConfigError(
            f"the problem {shown(bare.id)} has no reference, so nothing rewards its turns: train on problems "
            "with references, or give a grader that needs none"
        )
    _refuse_unfit(game, team, settings)
    settings = checked(settings)
    await preflight(team.agents, game, _trained(team, settings))
    await require_room(game.rules, team.agents, problems)
    trainer = LocalTrainer(
        team.policies,
        settings.train.model_copy(update={"seed": settings.seed}),
        run={
            **settings.model_dump(mode="json", exclude={"seed", "steps", "train"}),
            "agents": {name: agent.policy for name, agent in team.agents.items()},
            "team": described_team(team.agents, team.policies),
            "made_by": team.made_by,
            "max_turns": game.rules.max_turns,
            "problems": problems.content_hash(),
            **described_game(game),
            **described_length(team.agents, settings.steps),
            "frozen": fingerprints(team.policies),
        },
        max_staleness=settings.pipeline.staleness,
        frozen=team.frozen,
    )
    return await fit(
        trainer,
        lambda done: rollouts(game, team, problems, settings, done=done, directory=directory),
        settings.steps,
        refresh=team.refresh,
        directory=directory,
        checkpoint_every=checkpoint_every,
        loggers=loggers,
    )


async def fit(
    trainer: LocalTrainer,
    batches: Batches,
    steps: int,
    *,
    refresh: Refresh | None = None,
    directory: str | Path | None = None,
    checkpoint_every: int = 10,
    loggers: Sequence[Logger] = (),
) -> list[StepMetrics]:
    """The loop: wait for a batch, update, refresh the models, log, save, until `steps` updates are done.

    With a directory, the newest complete checkpoint in it is loaded first, if it is ahead of the trainer. The
    update and a synchronous `refresh` run in a thread, so rollouts can continue meanwhile.

    Args:
        trainer: What is trained.
        batches: Makes the batches: `rollouts`, or an async generator of your own.
        steps: Updates in all, those of earlier runs included.
        refresh: Called before the first batch is asked for and after every update.
        directory: For checkpoints; None: none are written.
        checkpoint_every: Updates between two checkpoints; the last update always gets one.
        loggers: Get the figures of every update: the trainer's, ``seconds/waited`` (for the batch), and
            ``pipeline/age`` (mean of its groups, in versions), ``pipeline/oldest`` and ``pipeline/dropped``
            (turns).

    Returns:
        The figures of the updates that this call made; fewer than asked for only if the batches end.

    Raises:
        ConfigError: More updates than `steps` are done already.
    """
    require_integer(checkpoint_every, "checkpoint_every")
    if directory is not None:
        trainer.resume(directory)
    require_steps(trainer.steps, steps, directory)
    history: list[StepMetrics] = []
    try:
        for logger in loggers:
            logger.start(trainer.steps)
        await _refresh(refresh, trainer.policies)
        if trainer.steps >= steps:
            return history
        async with aclosing(batches(trainer.steps)) as due:
            began = time.perf_counter()
            async for batch in due:
                waited = time.perf_counter() - began
                metrics = await asyncio.to_thread(trainer.step, batch.groups)
                await _refresh(refresh, trainer.policies)
                history.append(metrics)
                for logger in loggers:
                    logger.log(metrics.step, {**_figures(batch, waited), **metrics.flat()})
                if trainer.steps == steps:
                    break
                if directory is not None and trainer.steps % checkpoint_every == 0:
                    trainer.save(directory)
                began = time.perf_counter()
            unsaved = trainer.steps == steps or trainer.steps % checkpoint_every  # the batches may end early
            if directory is not None and history and unsaved:
                trainer.save(directory)
    finally:
        for logger in loggers:
            logger.close()
    return history


async def rollouts(
    game: Game,
    team: Team,
    problems: ProblemSet,
    settings: RunSettings,
    *,
    done: int = 0,
    directory: str | Path | None = None,
) -> AsyncGenerator[UpdateBatch]:
    """Play trees, and yield what each update trains.

    Args:
        game: What is played.
        team: Who plays.
        problems: Training problems; those of a step follow from the seed and its number alone.
        settings: How groups are formed, and how far rollouts may run ahead.
        done: Updates that are done already.
        directory: Where `LEDGER` records what was trained.

    Raises:
        ModelError: As many trees in a row as a step has could not be played.
    """
    if settings.rollouts is not None:
        game = replace(game, grower=grouped(settings.rollouts))
    if not settings.pipeline.staleness:
        game = graded_in_lockstep(game)
    policies, trained = team.policies, _Ledger.of(directory, done)
    own = _trained(team, settings)
    lost = LostTrees(lambda turn: turn.agent in own, settings.problems_per_step)
    unseen = {role_of(name) for name in own}.difference(settings.train.batch_roles)
    batches = pipeline(
        game,
        team.agents,
        _steps(problems, settings, done, trained.trees),
        settings.pipeline,
        seed=settings.seed,
        training=Training(
            version=done,
            policy_version=lambda name: policies[name].version if name in policies else None,
            trained=trained.groups,
            uniform=partial(teaches_nothing, settings.train, frozen=team.frozen),
            slots=team.slots,
        ),
        journal=lost,
    )
    async with aclosing(batches) as due:
        async for batch in due:
            _refuse_unrewarded(game, batch, team, settings)
            if batch.version == done:
                _refuse_faulty(batch, team, settings)
            unseen -= _warn_of_lone_rewards(batch, unseen)
            # Before its checkpoint; without a checkpoint the line is removed again.
            trained.note(batch, lost.ids)
            yield batch


def _steps(
    problems: ProblemSet, settings: RunSettings, done: int, trees: frozenset[str]
) -> Iterator[list[Job]]:
    """The remaining jobs: whole steps if an update trains a step, otherwise all trees not wholly trained."""
    by_step = settings.pipeline.groups_per_update is None
    for step in range(done, settings.steps) if by_step else itertools.count():
        jobs = step_jobs(
            problems,
            step=step,
            problems_per_step=settings.problems_per_step,
            seed=settings.seed,
            progress=step / max(1, settings.steps - 1) if by_step else None,
        )
        yield [job for job in jobs if job.tree_id not in trees]


async def _refresh(refresh: Refresh | None, policies: Mapping[str, Policy]) -> None:
    """Refresh the models in a thread, since an in-process engine may have to finish a batch first."""
    if refresh is not None:
        await maybe_await(await asyncio.to_thread(refresh, policies))


def _figures(batch: UpdateBatch, waited: float) -> dict[str, float]:
    return {
        "seconds/waited": waited,
        "pipeline/age": sum(batch.ages) / max(1, len(batch.ages)),
        "pipeline/oldest": float(max(batch.ages, default=0)),
        "pipeline/dropped": float(batch.dropped),
    }


def _refuse_unfit(game: Game, team: Team, settings: RunSettings) -> None:
    """Refuse a run that would train something other than the settings say."""
    if settings.rollouts is not None and game.visibility is not None and game.visibility.searched:
        raise ConfigError(
            "this environment is a search, which grows its own trees: set rollouts to None (as MARS2 does)"
        )
    if settings.rollouts is not None and settings.rollouts.group < 2 and not settings.train.batch_roles:
        raise ConfigError(
            "groups of one turn have nothing to compare, so nothing would be trained: "
            "set rollouts.group to 2 or more"
        )
    if idle := team.policies.keys() - {agent.policy for agent in team.agents.values()}:
        raise ConfigError(
            f"no agent acts with the policy {shown(min(idle))}; their policies are "
            f"{', '.join(sorted(team.frozen)) or 'the other ones'}: an agent's policy is the name of "
            "its model (policy=model.name)"
        )
    weights = {id(policy.model) for policy in team.policies.values()}
    require_limit(settings.train.overlong, team.agents)
    require_roles(settings.train, team.agents)
    if not team.policies:
        raise ConfigError("the team has no policy that is trained: name one in its policies")
    trained = _trained(team, settings)
    if not trained:
        raise ConfigError(
            f"the policies {', '.join(map(shown, team.policies))} play no role of train_roles, so nothing "
            "would be trained: name one of their roles, or leave train_roles out"
        )
    for name, agent in team.agents.items():
        sampling, models = getattr(agent, "sampling", None), models_of(agent)
        if agent.policy not in team.policies:
            continue
        if isinstance(sampling, Sampling) and name in trained:
            require_trainable(sampling)
        if isinstance(agent, TrainingAgent):
            _refuse_unfit_scaffold(name, settings)
        if settings.pipeline.staleness and any(id(getattr(m, "module", None)) in weights for m in models):
            # An update in the middle of a sample would be neither the old policy nor the new one.
            raise ConfigError(
                f"{name} samples from the weights that are trained meanwhile: give its model a "
                "copy of them, and a `refresh` that updates it; or set pipeline.staleness to 0"
            )
        if settings.segment_tokens and not any(isinstance(m, SegmentedModel) for m in models):
            raise ConfigError(
                f"segment_tokens is {settings.segment_tokens}, but {name} samples in one piece: "
                "put its model into a SegmentedModel, or leave segment_tokens out"
            )


def _refuse_unfit_scaffold(name: str, settings: RunSettings) -> None:
    """Refuse settings that an agent with help in training cannot have."""
    if settings.rollouts is None or settings.pipeline.groups_per_update is not None:
        raise ConfigError(
            f"{name} acts by the sample's place in its group and by the run's progress: give rollouts, and "
            "leave pipeline.groups_per_update out"
        )
    if settings.train.tis_cap is not None:
        raise ConfigError(
            f"{name} may sample from another prompt than is trained on, and tis_cap would take that for a "
            "difference between engine and trainer: leave it out"
        )
    if settings.pipeline.staleness and settings.train.old_logprobs is None:
        raise ConfigError(
            f"{name} may sample from another prompt than is trained on: set train.old_logprobs, the ratio's "
            'denominator, to "trainer" (on the prompt trained on, by the newest weights) or "rollout" (on '
            "the prompt sampled from, by the weights that sampled)"
        )


def _trained(team: Team, settings: RunSettings) -> list[str]:
    """The agents whose turns are trained on."""
    roles = settings.train.train_roles
    return [
        name
        for name, agent in team.agents.items()
        if agent.policy in team.policies and (roles is None or role_of(name) in roles)
    ]


def _refuse_faulty(batch: UpdateBatch, team: Team, settings: RunSettings) -> None:
    """End a run whose first update has nothing to train because of faults: later ones would not differ."""
    if not batch.groups:
        raise ModelError(
            "every tree of the first update was discarded, so nothing can be trained; the log says why"
        )
    names = _trained(team, settings)
    failed: dict[str, list[str]] = {}
    for turn in (turn for group in batch.groups for turn in group.turns if turn.agent in names):
        failed.setdefault(turn.role, []).append(turn.info.get(REWARD_FAULT, ""))
    for role, faults in failed.items():
        if all(faults):
            raise ConfigError(f"no turn of {role!r} has a reward in the first update: {faults[0]}")


def _refuse_unrewarded(game: Game, batch: UpdateBatch, team: Team, settings: RunSettings) -> None:
    """Refuse to train a role that can get no reward: its turns would silently be left out."""
    roles = settings.train.train_roles
    if game.team_reward is not None:
        return
    for turn in (turn for group in batch.groups for turn in group.turns):
        trained = turn.policy in team.policies and (roles is None or turn.role in roles)
        graded = turn.grade is not None or turn.action.interrupted  # a turn that was cut off is not graded
        if trained and turn.role not in game.rewards and not graded:
            raise ConfigError(
                f"the role {turn.role!r} is trained, but nothing rewards it: give it a reward "
                f"(rewards={{{turn.role!r}: ...}}), or leave it out of train_roles"
            )


def _warn_of_lone_rewards(batch: UpdateBatch, roles: Collection[str]) -> set[str]:
    """Warn of roles whose turns have nothing to compare in their groups; the roles that have acted."""
    acted = {turn.role for group in batch.groups for turn in group.turns}.intersection(roles)
    rewarded = [[turn.role for turn in group.turns if turn.reward is not None] for group in batch.groups]
    compared = {role for group in rewarded if len(group) > 1 for role in group}
    for role in sorted(acted - compared):
        log.warning(
            "nothing of the role %r was trained in update %d: none of its groups has two turns with a reward "
            "to compare. A team reward may leave turns without a reward that no other turn continues: raise "
            "rollouts.branches, give %r a reward, or leave it out of train_roles",
            *(role, batch.version + 1, role),
        )
    return acted


@dataclass(frozen=True, slots=True)
class _Ledger:
    """What has been trained, on disk: one line for each update."""

    log: UpdateLog
    groups: frozenset[str] = field(default_factory=frozenset)
    trees: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, directory: str | Path | None, steps: int) -> _Ledger:
        """What the first `steps` updates trained. Later lines are removed, since their weights are lost."""
        log, rows = UpdateLog.resumed(directory, LEDGER, steps)
        groups = frozenset(group for row in rows for group in row["groups"])
        return cls(log, groups, frozenset(tree for row in rows for tree in row["trees"]))

    def note(self, batch: UpdateBatch, lost: Collection[str]) -> None:
        """Record what the next update trains. Trees that were lost may be played again."""
        groups = [group.id for group in batch.groups]
        trees = [tree for tree in batch.trained_tree_ids if tree not in lost]
        self.log.write(batch.version + 1, {"groups": groups, "trees": trees})
