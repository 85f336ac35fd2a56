"""The ordinary source of batches: rollouts of a game, in step with the trainer or ahead of it."""

import itertools
import json
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mars_env.envs import Game, grouped
from mars_env.envs.rewards import REWARD_FAULT
from mars_env.errors import ConfigError, ModelError
from mars_env.files import write_atomically
from mars_env.models.batching import hold_waves
from mars_env.problems import ProblemSet
from mars_env.rollout import Job, UpdateBatch
from mars_env.rollout.groups import step_jobs
from mars_env.rollout.pipeline import Training, pipeline
from mars_env.rollout.row_files import append, open_file, rows_of
from mars_env.sync import call_async
from mars_env.text import logger
from mars_env.trainers.imitation import imitating
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.sample_files import sample_to_row
from mars_env.trainers.samples import turn_samples
from mars_env.trainers.scorable import has_no_gradient
from mars_env.types import Grade, Grader, Problem, Tree, Turn, role_of

if TYPE_CHECKING:
    from mars_env.trainers.team import Team

log = logger(__name__)

LEDGER = "trained.jsonl"
"""A file beside the checkpoints: what each update has trained, so that nothing is trained twice. A line has
the update's number, the policies' versions before it, groups with their ages, trees, and dropped turns."""

SAMPLES = "samples.jsonl"
"""Beside it, with `LoggingSettings.record`: rows of each update (docs/other-trainers.md), with its number."""


async def rollouts(
    game: Game,
    team: "Team",
    problems: ProblemSet,
    settings: RunSettings,
    *,
    done: int = 0,
    directory: str | Path | None = None,
) -> AsyncGenerator[UpdateBatch]:
    """Play trees, and yield what each update trains.

    The problems of a step follow from the seed and its number alone; `done` updates are done already.
    `LEDGER` in the directory says what was trained.
    """
    if settings.rollouts is not None:
        game = replace(game, grower=grouped(settings.rollouts))
    if not settings.pipeline.staleness:
        game = graded_in_step(game)
    agents = imitating(team.agents) if settings.train.imitate else team.agents
    policies = team.policies
    ledger, rows = UpdateLog.resumed(directory, LEDGER, done)
    record, _ = UpdateLog.resumed(directory if settings.logging.record else None, SAMPLES, done)
    trees = {tree for row in rows for tree in row["trees"]}
    trained = {
        name
        for name, agent in team.agents.items()
        if agent.policy in policies and settings.train.trains(role_of(name))
    }
    lost = LostTrees(lambda turn: turn.agent in trained, settings.problems_per_step)
    unseen = {role_of(name) for name in trained}.difference(settings.train.batch_roles)
    batches = pipeline(
        game,
        agents,
        _steps(problems, settings, done, trees),
        settings.pipeline,
        seed=settings.seed,
        training=Training(
            version=done,
            policy_version=lambda name: policies[name].version if name in policies else None,
            trained={group for row in rows for group in row["groups"]},
            uniform=partial(has_no_gradient, settings.train, frozen=team.frozen),
        ),
        journal=lost,
    )
    async with aclosing(batches) as due:
        async for batch in due:
            turns = [turn for group in batch.groups for turn in group.turns if turn.agent in trained]
            _require_rewards(game, turns)
            if batch.version == 0:
                _require_turns(batch, turns)
            unseen -= _warn_of_lone_rewards(batch, unseen)
            # Before its checkpoint; without a checkpoint the line is removed again.
            row = {
                "versions": {name: policy.version for name, policy in policies.items()},
                "groups": [group.id for group in batch.groups],
                "ages": batch.ages,
                "trees": [tree for tree in batch.trained_tree_ids if tree not in lost.ids],
                "dropped": batch.dropped,
            }
            ledger.write(batch.version + 1, row)
            if settings.logging.record:
                samples = turn_samples(batch.groups, settings.train, frozen=team.frozen)
                record.write(batch.version + 1, *map(sample_to_row, samples))
            yield batch


def _steps(
    problems: ProblemSet, settings: RunSettings, done: int, trees: Collection[str]
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


def _require_rewards(game: Game, turns: Sequence[Turn]) -> None:
    """Reject a trained role that can get no reward: its turns would be left out without a word."""
    for turn in turns:
        graded = turn.grade is not None or turn.action.interrupted  # a turn that was cut off is not graded
        if game.team_reward is None and turn.role not in game.rewards and not graded:
            raise ConfigError(f"nothing rewards {turn.role!r}: give a reward, or leave it out of train_roles")


def _require_turns(batch: UpdateBatch, turns: Sequence[Turn]) -> None:
    """End a run whose first update has nothing to train because of faults: later ones would not differ."""
    if not batch.groups:
        raise ModelError("every tree of the first update was discarded: the log says why")
    for role in dict.fromkeys(turn.role for turn in turns):
        faults = [turn.info.get(REWARD_FAULT, "") for turn in turns if turn.role == role]
        if all(faults):
            raise ConfigError(f"no turn of {role!r} has a reward in the first update: {faults[0]}")


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


class LostTrees:
    """Counts trees that faults ended before a trained agent had acted; a journal for `pipeline`.

    A lost tree, of which `ids` has the id, costs only itself. The run ends when as many were lost as a step
    has (but never one alone), all of which began after a trained agent had last acted.
    """

    def __init__(self, trained: Callable[[Turn], bool], step: int) -> None:
        self.ids: set[str] = set()
        self._trained, self._limit = trained, max(2, step)
        self._begun: set[str] = set()  # since a trained agent last acted
        self._in_vain = 0

    def turns_of(self, tree_id: str) -> Mapping[str, Turn]:
        """A tree begins; nothing of it was played before."""
        self._begun.add(tree_id)
        return {}

    def write_turns(self, turns: Sequence[Turn]) -> None:
        """Turns were played."""
        if any(map(self._trained, turns)):
            self._begun.clear()
            self._in_vain = 0

    def write_tree(self, tree: Tree, team_rewards: Mapping[str, float | None]) -> None:
        """A tree has ended; a ModelError if nothing succeeds any more."""
        if not tree.fault or any(map(self._trained, tree.turns)):
            return
        self.ids.add(tree.id)
        self._in_vain += tree.id in self._begun
        if self._in_vain >= self._limit:
            raise ModelError(f"{self._in_vain} trees could not be played, and no other: {tree.fault}")


@dataclass(frozen=True, slots=True)
class _InStep:
    grader: Grader

    async def grade(self, problem: Problem, text: str) -> Grade:
        """The grade, when all gradings that started with it have ended."""
        async with hold_waves():
            return await call_async(self.grader.grade, problem, text)


def graded_in_step(game: Game) -> Game:
    """The same game, reproducible: on a CPU its rollouts are then bitwise the same in every run.

    Otherwise the time that graders take would decide which requests share a batch of a model in this process,
    and so the last bits of their log-probabilities.
    """
    visibility = game.visibility
    if visibility is not None and visibility.grader is not None:
        visibility = replace(visibility, grader=_InStep(visibility.grader))
    return replace(game, grader=_InStep(game.grader), visibility=visibility)


@dataclass(frozen=True, slots=True)
class UpdateLog:
    """A file of JSON lines with the numbers of their updates, written to disk before the update.

    A line counts once there is a checkpoint of its update or of a later one. Without a path nothing is kept.
    """

    path: Path | None

    @classmethod
    def resumed(
        cls, directory: str | Path | None, name: str, updates: int
    ) -> "tuple[UpdateLog, list[dict[str, Any]]]":
        """The log of a run of which so many updates are done, and their rows; later rows are removed."""
        if directory is None:
            return cls(None), []
        path = Path(directory) / name
        rows = [row for _, row in rows_of(path) if row["update"] <= updates]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, "".join(map(_line, rows)))
        return cls(path), rows

    def write(self, update: int, *rows: Mapping[str, Any]) -> None:
        """Add the lines of an update, numbered from 1."""
        if self.path is None:
            return
        with open_file(self.path, "a") as file:
            append(file, "".join(_line({"update": update, **row}) for row in rows), sync=True)


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, allow_nan=False) + "\n"
