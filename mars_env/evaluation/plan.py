"""What an evaluation plays: a plan, what plays it, and the trees that come of it."""

import copy
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mars_env.checks import require_integer
from mars_env.envs.game import Game
from mars_env.errors import ContextError, ServerDown
from mars_env.evaluation.costs import Prices, checked_prices
from mars_env.problems import ProblemSet
from mars_env.rollout import Job, Store, play_all, read_run
from mars_env.rollout.engine import OnTurns
from mars_env.text import logger
from mars_env.types import Agent, Sampling, Tree

log = logger(__name__)

GENERATED_LIMIT = 100
"""How many problems of an endless set are played when no limit is given."""

OnTree = Callable[[Tree], None]

Play = Callable[..., AsyncGenerator[Tree]]
"""Plays jobs, as `LocalPlay` does: ``play(jobs, seed=..., concurrency=..., journal=..., change=...)``, where
`change` makes what is played of the game. Yields each tree as soon as it is finished."""


@dataclass(frozen=True, slots=True)
class LocalPlay:
    """Plays jobs in this process; `on_turns` gets the turns of every expansion."""

    game: Game
    agents: Mapping[str, Agent]
    on_turns: OnTurns | None = None

    def __call__(
        self, jobs: Iterable[Job], *, change: Callable[[Game], Game], **how: Any
    ) -> AsyncGenerator[Tree]:
        """Yields each tree as soon as it is finished."""
        return play_all(change(self.game), self.agents, jobs, on_turns=self.on_turns, **how)

    def limit_of(self, agent: str) -> int | None:
        """The limit on an agent's completions; None if it has none to change."""
        sampling = getattr(self.agents[agent], "sampling", None)
        return sampling.max_tokens if isinstance(sampling, Sampling) else None

    def longer(self, agent: str, limit: int) -> "LocalPlay":
        """The same, with another limit on the completions of an agent that has one."""
        changed: Any = copy.copy(self.agents[agent])
        changed.sampling = replace(changed.sampling, max_tokens=limit, overflow="unknown")
        return LocalPlay(self.game, {**self.agents, agent: changed}, self.on_turns)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played: `samples` episodes of each problem (n of avg@n); `config` also identifies the run."""

    title: str
    problems: ProblemSet
    samples: int
    seed: int
    concurrency: int
    baselines: bool
    config: Mapping[str, Any]
    game: Game
    make_game: Callable[[], Game]
    make_agents: Callable[[], Mapping[str, Agent]]
    prices: Prices | None = None

    def __post_init__(self) -> None:
        for name in ("samples", "concurrency"):
            object.__setattr__(self, name, require_integer(getattr(self, name), name))
        object.__setattr__(self, "seed", require_integer(self.seed, "seed", 0))
        if self.prices is not None:
            object.__setattr__(self, "prices", checked_prices(self.prices))

    @property
    def jobs(self) -> list[Job]:
        """Every problem, sample by sample, so that an interrupted run covers all problems evenly."""
        return [Job(problem, sample) for sample in range(self.samples) for problem in self.problems]

    @property
    def identity(self) -> dict[str, dict[str, Any]]:
        """What a resumed run must have in common with the one it resumes, and what may change."""
        must_match = {"title": self.title, "problem_set": self.problems.name, "seed": self.seed}
        may_change = {
            "problems": len(self.problems),
            "problems_hash": self.problems.content_hash(),
            "samples": self.samples,
        }
        return {
            "must_match": {**must_match, **self.config["must_match"]},
            "may_change": {**may_change, **self.config["may_change"]},
        }


@dataclass(frozen=True, slots=True)
class CostBound:
    """What a plan can cost at most: a dry run's answer. Tokens are None where an agent has no limit."""

    episodes: int
    calls: int
    tokens: int | None


def cost_bound(plan: Plan) -> CostBound:
    """Upper bounds for the agents' calls and sampled tokens, without baselines and models that judge."""
    agents, turns = plan.make_agents(), plan.game.rules.max_turns
    episodes = plan.samples * len(plan.problems)
    limits = [getattr(getattr(agent, "sampling", None), "max_tokens", None) for agent in agents.values()]
    numbers = [limit for limit in limits if limit is not None]
    tokens = episodes * turns * max(numbers) if numbers and len(numbers) == len(limits) else None
    boxes = [getattr(agent, "toolbox", None) for agent in agents.values()]
    # With tools: a message for each call, one that asks for more than are left, and an answer.
    requests = max((box.max_calls + 2 if box else 1 for box in boxes), default=1)
    return CostBound(episodes, episodes * turns * requests, tokens)


def first_problems(problems: ProblemSet, limit: int | None) -> ProblemSet:
    """The first `limit` problems; by default all, or `GENERATED_LIMIT` of an endless set."""
    if limit is None:
        limit = GENERATED_LIMIT if problems.endless else len(problems)
    limit = require_integer(limit, "limit")
    return problems[:limit] if limit < len(problems) else problems


def evaluated_game(game: Game) -> Game:
    """The game with the grader of an evaluation: a rubric may have another judge than in training."""
    other = getattr(game.grader, "for_evaluation", None)
    return game if other is None else replace(game, grader=other())


async def play_trees(
    play: Play, change: Callable[[Game], Game], plan: Plan, out: Path | None, on_tree: OnTree | None
) -> list[Tree]:
    """All trees of a plan; those that an earlier run has lost are played last, once more."""
    trees: dict[str, Tree] = {}
    jobs, problems = plan.jobs, list(plan.problems)

    async def play_jobs(jobs: Sequence[Job], store: Store | None) -> None:
        played = play(jobs, seed=plan.seed, concurrency=plan.concurrency, journal=store, change=change)
        async with aclosing(played):
            async for tree in played:
                trees[tree.id] = tree
                if on_tree is not None:
                    on_tree(tree)

    with Store(out, problems=problems, **plan.identity) if out is not None else nullcontext() as store:
        lost = [job for job in jobs if store is not None and job.tree_id in store.lost]
        done = store.finished | store.lost if store is not None else ()
        await play_jobs([job for job in jobs if job.tree_id not in done], store)
        try:
            await play_jobs(lost, store)
        except (ContextError, ServerDown) as error:
            log.warning("trees that an earlier run has lost remain lost: %s", error)
    if out is not None and len(trees) < len(jobs):
        trees = {tree.id: tree for tree in read_run(out).trees} | trees
    return [trees[job.tree_id] for job in jobs]
