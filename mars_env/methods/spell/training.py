"""SPELL: one policy asks, answers and compares, without labels (arXiv 2509.23863; docs/methods.md)."""

import math
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np
from pydantic import BaseModel, Field, NonNegativeInt, PositiveInt, TypeAdapter

from mars_env.envs import Game
from mars_env.envs.growers import levels
from mars_env.errors import ConfigError
from mars_env.evaluation.trees import is_right
from mars_env.loggers import Logger
from mars_env.methods.spell.answers import SameAnswer
from mars_env.methods.spell.memory import QuestionMemory, Remembered, question_job
from mars_env.methods.spell.rewards import SpellReward, majority_vote, outcomes, votes_of
from mars_env.methods.spell.rules import QUESTIONER, RESPONDER, VERIFIER, documents_of, spell
from mars_env.problems import ProblemSet
from mars_env.rollout import UpdateBatch, collect, groups_of
from mars_env.seeds import derive_seed
from mars_env.trainers.checks import check_run, require_roles
from mars_env.trainers.loop import fit, trainer_of
from mars_env.trainers.metrics import StepMetrics
from mars_env.trainers.recipes import RunSettings, checked
from mars_env.trainers.rollouts import LostTrees, UpdateLog, graded_in_step
from mars_env.trainers.team import Team
from mars_env.types import Grader, Group, Problem, Tree, role_of

MEMORY: Final = "memory.jsonl"
"""A file beside the checkpoints: what each update's batch added to the memory."""

_REMEMBERED: Final = TypeAdapter(list[Remembered])

OnTrees = Callable[[int, Sequence[Tree]], None]
"""Gets the number of the updates done, and all trees of the next batch."""


class SpellSettings(BaseModel, frozen=True, extra="forbid"):
    """The numbers of SPELL; `RunSettings` has those that every run has."""

    group: PositiveInt = 8
    """Answers to a question."""
    verifiers: PositiveInt = 8
    """Votes on an answer."""
    fresh: PositiveInt = 5
    """Documents that the Questioner has not seen."""
    last: NonNegativeInt = 3
    """Remembered questions that the Questioner sees, with their documents; 0 for no memory."""
    questions: PositiveInt = 128
    """Questions that an update trains on: those whose answers got different rewards."""
    tries: PositiveInt = 10
    """Most rounds of ``problems_per_step`` clusters that are played to find so many."""
    difficulty: Literal["gaussian", "unsolved", "tent"] = "gaussian"
    """The Questioner's reward; see `mars_env.methods.spell.rewards.DIFFICULTY`."""
    grounding: bool = True
    """Whether questions that are answered from another cluster's documents are rejected."""
    least_agreement: float = Field(default=0.51, ge=0, le=1)
    """A Verifier's group is trained only if at least this share of it votes as its majority ..."""
    most_agreement: float = Field(default=0.99, ge=0, le=1)
    """... and at most this share, and if the majority agrees with the rule."""
    verifier_turns: float = Field(default=1.0, ge=0)
    """Verifiers' turns in an update for each question in it, in whole groups. SPELL: as many as questions
    (our reading; about 1/G of all turns are then trained, as the paper says)."""


def spell_game(settings: SpellSettings | None = None, grader: Grader | None = None) -> Game:
    """The game of a training run; the grader judges answers by the reference, by default by `SameAnswer`."""
    chosen = settings or SpellSettings()
    before = (1, 1) if chosen.grounding else (1,)
    return Game(
        spell(grounding=chosen.grounding),
        grader or SameAnswer(),
        rewards={},
        team_reward=SpellReward(chosen.difficulty),
        grower=levels((*before, chosen.group, chosen.verifiers)),
    )


def role_groups(trees: Sequence[Tree], settings: SpellSettings, seed: int) -> list[Group]:
    """What an update trains of the trees of a batch, which are in the order in which they were asked for.

    - Responder: the first ``questions`` groups of answers of which some are right, and not all.
    - Questioner: the questions of these groups, and of each task as many with a reward of 0 or less, drawn.
    - Verifier: groups whose majority agrees with the rule, with an agreement within the settings' limits; as
      many turns as the settings say, drawn.

    Answers from another cluster's documents are never trained.
    """
    chosen: list[Group] = []
    questioners: list[Group] = []
    refused: dict[str, list[Group]] = {}
    verifiers: list[Group] = []
    wanted_counts: Counter[str] = Counter()
    for tree in trees:
        groups = {group.turns[0].parent_id: group for group in groups_of([tree])}
        task = str(tree.problem.metadata.get("task", "general"))
        for outcome in outcomes(tree):
            question = Group(outcome.turn.group_id, (outcome.turn,))
            if outcome.turn.reward is not None and outcome.turn.reward <= 0:
                refused.setdefault(task, []).append(question)
            if outcome.kind == "some" and wanted_counts.total() < settings.questions:
                chosen.append(groups[outcome.answers[0][0].parent_id])
                questioners.append(question)
                wanted_counts[task] += 1
            verifiers += [
                groups[answer.id]
                for answer, _, _ in outcome.answers
                if answer.id in groups and _is_clear(groups[answer.id], is_right(answer), settings)
            ]
    rng = np.random.default_rng(seed)
    for task in sorted(wanted_counts):
        questioners += _drawn(refused.get(task, []), wanted_counts[task], rng)
    number = math.ceil(wanted_counts.total() * settings.verifier_turns / settings.verifiers)
    return [*chosen, *questioners, *_drawn(verifiers, number, rng)]


def _is_clear(votes: Group, right: bool | None, settings: SpellSettings) -> bool:
    votes_read = votes_of(votes.turns)
    vote = majority_vote(votes_read)
    if vote is None or vote != right:
        return False
    share = votes_read.count("yes" if vote else "no") / len(votes_read)
    return settings.least_agreement <= share <= settings.most_agreement


def _drawn(groups: Sequence[Group], n: int, rng: np.random.Generator) -> list[Group]:
    """At most n of the groups, in their order."""
    places = rng.choice(len(groups), min(n, len(groups)), replace=False) if groups else ()
    return [groups[place] for place in sorted(places)]


def paired(clusters: ProblemSet, n: int, rng: np.random.Generator) -> list[Problem]:
    """Draw n different clusters, each with the documents of another one as its `other_documents`."""
    pairs = []
    for cluster in clusters.sample(rng, n):
        first, *rest = clusters.sample(rng, min(2, len(clusters)))
        other = rest[0] if rest and first.id == cluster.id else first
        metadata = {**cluster.metadata, "other_documents": documents_of(other)}
        pairs.append(replace(cluster, metadata=metadata))
    return pairs


@dataclass(frozen=True)
class SpellRun:
    """A training by SPELL; a `ConfigError` if the settings do not fit.

    Attributes:
        team: `mars_env.trainers.make_team` with ``agent=mars_env.methods.spell.agents.spell_agent``.
        clusters: Documents to ask about (`mars_env.methods.spell.rules.cluster`).
        settings: ``rollouts=None`` and no staleness, since the memory is updated between two batches;
            ``problems_per_step`` are the clusters of a try.
        game: By default `spell_game` of these numbers.
    """

    team: Team
    clusters: ProblemSet
    settings: RunSettings
    spell: SpellSettings = SpellSettings()  # noqa: RUF009 (frozen)
    game: Game | None = None

    def __post_init__(self) -> None:
        settings, spell, agents = checked(self.settings), checked(self.spell), self.team.agents
        if settings.rollouts is not None:
            raise ConfigError("SPELL grows its own trees: set rollouts=None")
        if settings.pipeline.staleness:
            raise ConfigError("SPELL's memory is updated between two batches: set pipeline.staleness to 0")
        if missing := [name for name in (QUESTIONER, RESPONDER, VERIFIER) if name not in agents]:
            raise ConfigError(f"the team lacks {', '.join(missing)}")
        if spell.group < 2:
            raise ConfigError("one answer to a question is never right in part: set group to 2 or more")
        if spell.grounding and len(self.clusters) < 2:
            raise ConfigError("the documents of another cluster are needed: give two clusters or more")
        require_roles(settings.train, agents)
        object.__setattr__(self, "game", self.game or spell_game(spell))


async def spell_batches(
    run: SpellRun, *, done: int = 0, directory: str | Path | None = None, on_trees: OnTrees | None = None
) -> AsyncGenerator[UpdateBatch]:
    """Play trees with the memory, cut to the updates that are `done`, and yield what each update trains."""
    assert run.game is not None
    game, team, settings, spell = graded_in_step(run.game), run.team, run.settings, run.spell
    log, rows = UpdateLog.resumed(directory, MEMORY, done)
    remembered = _REMEMBERED.validate_python([new for row in rows for new in row["new"]])
    memory, _ = QuestionMemory().plus(remembered)
    config = settings.train
    lost = LostTrees(
        lambda turn: turn.policy in team.policies and config.trains(turn.role), settings.problems_per_step
    )
    for step in range(done, settings.steps):
        trees: list[Tree] = []
        progress = step / max(1, settings.steps - 1)
        for attempt in range(spell.tries):
            rng = np.random.default_rng(derive_seed(settings.seed, "clusters of step", step, attempt))
            sample = step * spell.tries + attempt
            jobs = [
                question_job(cluster, memory, spell.fresh, spell.last, settings.seed, sample, progress)
                for cluster in paired(run.clusters, settings.problems_per_step, rng)
            ]
            trees += await collect(game, team.agents, jobs, seed=settings.seed, journal=lost)
            if sum(outcome.kind == "some" for tree in trees for outcome in outcomes(tree)) >= spell.questions:
                break
        if on_trees is not None:
            on_trees(step, trees)
        memory, new = memory.updated(trees)
        log.write(step + 1, {"new": [*map(asdict, new)]})  # before its checkpoint; without one it is removed
        groups = role_groups(trees, spell, derive_seed(settings.seed, "turns of step", step))
        yield UpdateBatch(step, tuple(groups), (0,) * len(groups), tuple(tree.id for tree in trees))


async def train_spell(
    run: SpellRun,
    *,
    directory: str | Path | None = None,
    checkpoint_every: int = 10,
    loggers: Sequence[Logger] = (),
    on_trees: OnTrees | None = None,
) -> list[StepMetrics]:
    """Train a team by SPELL until ``settings.steps`` updates are done.

    The Questioner's rewards are compared over the batch (``TrainConfig.batch_roles``), the others' in their
    groups. A run that was killed continues from its newest checkpoint with the memory of that moment. A
    `ModelError` if as many trees as there are clusters in a try could not be played, and no other.
    """
    team, settings = run.team, run.settings
    assert run.game is not None
    check_run(run.game, team, settings)
    batch_roles = (*settings.train.batch_roles, role_of(QUESTIONER))
    config = settings.train.model_copy(update={"batch_roles": batch_roles})
    also = {"spell": run.spell.model_dump(mode="json"), "clusters": run.clusters.content_hash()}
    return await fit(
        trainer_of(run.game, team, settings, config, also),
        lambda done: spell_batches(run, done=done, directory=directory, on_trees=on_trees),
        settings.steps,
        refresh=team.refresh,
        directory=directory,
        checkpoint_every=checkpoint_every,
        loggers=loggers,
    )
