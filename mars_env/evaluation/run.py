"""Plays an evaluation: many samples of every problem, the equal-token baselines, one report."""

import copy
import math
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from mars_env.checks import require_integer
from mars_env.envs.game import Game
from mars_env.envs.growers import Linear
from mars_env.envs.selection import cast_votes
from mars_env.envs.solve import Solve
from mars_env.envs.solve_verify_correct import SOLVER, VERIFIER, Schedule, SolveVerifyCorrect
from mars_env.errors import ConfigError, ModelError
from mars_env.evaluation.baselines import (
    Baseline,
    majority_vote,
    oracle,
    refinement,
    retries,
    samples_for,
    single,
    token_budget,
    votes_for,
    weighted_vote,
)
from mars_env.evaluation.costs import Prices, checked_prices, cost, price_of, uncounted
from mars_env.evaluation.provenance import Provenance, provenance, versions
from mars_env.evaluation.report import REPORT, Report, RunDescription, build_report
from mars_env.evaluation.trees import AnswerOf, answers_of_grading, first_attempts, sampled_tokens
from mars_env.files import write_atomically, writing
from mars_env.problems import ProblemSet
from mars_env.rollout import Job, Store, play_all, read_run
from mars_env.rollout.engine import OnTurns
from mars_env.seeds import derive_seed
from mars_env.text import counted, logger, shown
from mars_env.types import Agent, Problem, Sampling, Tree

log = logger(__name__)

GENERATED_LIMIT = 100
"""How many problems of an endless set are played when no limit is given."""

CONTINUED = "Single agent, going on writing"

OnTree = Callable[[Tree], None]


Play = Callable[..., AsyncGenerator[Tree]]
"""Plays jobs: in this process (`LocalPlay`), or on a cluster (`mars_env.distributed.Fleet.play_all`).

Called as ``play(jobs, seed=..., concurrency=..., journal=..., change=...)``, where `change` makes what is
played of the game. Yields each tree as soon as it is finished."""


@dataclass(frozen=True, slots=True)
class LocalPlay:
    """Plays jobs in this process.

    `plain` are the agents without what watches them; `on_turns` gets the turns of every expansion.
    """

    game: Game
    agents: Mapping[str, Agent]
    plain: Mapping[str, Agent] = field(default_factory=dict)
    on_turns: OnTurns | None = None

    def __call__(
        self, jobs: Iterable[Job], *, change: Callable[[Game], Game], **how: Any
    ) -> AsyncGenerator[Tree]:
        """Yields each tree as soon as it is finished."""
        return play_all(change(self.game), self.agents, jobs, on_turns=self.on_turns, **how)

    def limit_of(self, agent: str) -> int | None:
        """The limit on an agent's completions; None if it has none to change."""
        sampling = getattr(self.plain.get(agent, self.agents[agent]), "sampling", None)
        return sampling.max_tokens if isinstance(sampling, Sampling) else None

    def longer(self, agent: str, limit: int) -> "LocalPlay":
        """The same, with another limit on the completions of an agent that has one."""
        changed: Any = copy.copy(self.plain.get(agent, self.agents[agent]))
        changed.sampling = replace(changed.sampling, max_tokens=limit, overflow="unknown")
        return LocalPlay(self.game, {**self.agents, agent: changed}, on_turns=self.on_turns)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is played, and how often.

    Attributes:
        title: The environment's id.
        game: The game, as this process plays it; `make_game` makes it in any process.
        problems: Endless ones are cut to `GENERATED_LIMIT` unless cut already.
        samples: Episodes of each problem (the n of avg@n).
        concurrency: Episodes at once; has no influence on what comes out.
        baselines: Whether one agent alone is given the System's tokens too.
        config: What else identifies the run (settings, agents), as plain data.
        prices: Of a million tokens, by policy; with them the report says what the run costs.
    """

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
    def identity(self) -> dict[str, Any]:
        """What a resumed run must have in common with the one it resumes."""
        return {
            "title": self.title,
            "problem_set": self.problems.name,
            "problems": len(self.problems),
            "problems_hash": self.problems.content_hash(),
            "samples": self.samples,
            "seed": self.seed,
            **self.config,
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
    known = [limit for limit in limits if limit is not None]
    tokens = episodes * turns * max(known) if known and len(known) == len(limits) else None
    boxes = [getattr(agent, "toolbox", None) for agent in agents.values()]
    # With tools: a message for each call, one that asks for more than are left, and an answer.
    asked = max((box.max_calls + 2 if box else 1 for box in boxes), default=1)
    return CostBound(episodes, episodes * turns * asked, tokens)


def first_problems(problems: ProblemSet, limit: int | None) -> ProblemSet:
    """The first `limit` problems; by default all, or `GENERATED_LIMIT` of an endless set."""
    if limit is None:
        limit = GENERATED_LIMIT if problems.endless else len(problems)
    limit = require_integer(limit, "limit")
    return problems[:limit] if limit < len(problems) else problems


async def play_plan(
    plan: Plan, play: Play, *, out: Path | None = None, on_tree: OnTree | None = None
) -> tuple[Report, list[Tree]]:
    """Play a plan; returns the report and the trees, in the order of problems and samples.

    With `out`, finished turns are stored there as they come, and a run that was interrupted goes on where
    it stopped. `on_tree` is called with every tree as it is finished.

    Raises:
        ConfigError: A search that has nothing to see, or would see the grade without `oracle=True`; a game
            that has no baselines; an agent without a price.
        StoreError: `out` holds a run of another configuration, or cannot be written.
        ModelError: Not a single episode could be finished.
    """
    game = plan.game
    if bare := [problem.id for problem in plan.problems if not game.can_grade(problem)]:
        ungraded = f"{counted(len(bare), 'problem')} without a reference, such as {shown(bare[0])}"
        raise ConfigError(f"{ungraded}, cannot be graded: give another grader, or use mars_env.solve")
    if game.visibility is not None:
        game.visibility.refuse_unfit(plan.problems)
    if plan.baselines:
        _require_solver(game)
    if plan.prices is not None and isinstance(play, LocalPlay):
        for agent in play.agents.values():
            price_of(agent.policy, plan.prices)
    try:
        made_by = provenance()
    except ConfigError as error:
        log.warning("the report names no commit: %s", error)
        made_by = Provenance(None, versions())
    team_reward = {"the team": plan.config["team_reward"]} if "team_reward" in plan.config else {}
    about = RunDescription(
        title=plan.title,
        problem_set=plan.problems.name,
        generated=plan.problems.generated,
        seed=plan.seed,
        rewards={**plan.config.get("rewards", {}), **team_reward},
        **asdict(made_by),
    )
    seen = game.visibility.notes if game.visibility is not None else ()
    remarks = (*seen, *getattr(_evaluated(game).grader, "notes", ()))

    def finished(tree: Tree) -> None:
        """Counts a tree; the first leaves what the trees do not say, for whoever views an interrupted run."""
        if out is not None and not (out / REPORT).exists():
            with writing(out / REPORT):
                write_atomically(out / REPORT, build_report([], about, notes=remarks).json_text())
        if on_tree is not None:
            on_tree(tree)

    trees = await _play(play, _evaluated, plan, out, finished)
    if all(tree.fault for tree in trees):
        raise ModelError(f"no episode could be finished; the first one's fault: {trees[0].fault}")
    baselines, notes = await _baselines(plan, play, trees, out, on_tree) if plan.baselines else ([], [])
    prices = plan.prices
    try:
        if prices is not None:
            cost(trees, prices)
    except ConfigError as error:
        prices, notes = None, [*notes, f"The cost is not known: {error}"]
    report = build_report(
        trees,
        about,
        prices=prices,
        answer_of=answers_of_grading(trees) if plan.problems[0].kind == "math" else None,
        baselines=baselines,
        notes=(*remarks, *notes, *uncounted(trees)),
    )
    if out is not None:
        with writing(out / REPORT):
            write_atomically(out / REPORT, report.json_text())
            write_atomically(out / "report.md", report.markdown() + "\n")
            write_atomically(out / "report.tex", report.latex())
    return report, trees


def _require_solver(game: Game) -> None:
    """Raise ConfigError unless the Solver can play the game alone."""
    if game.visibility is not None and game.visibility.searched:
        raise ConfigError("a search's baselines are searches: compare it with 'best-of-n' and 'refinement'")
    if SOLVER not in game.rules.possible_agents:
        names = ", ".join(game.rules.possible_agents)
        raise ConfigError(f"baselines need a Solver to play alone; the agents are {names}")


async def _baselines(
    plan: Plan, play: Play, trees: Sequence[Tree], out: Path | None, on_tree: OnTree | None
) -> tuple[list[Baseline], list[str]]:
    """What the System's tokens buy without the team, and notes on what could not be computed."""
    finished = [tree for tree in trees if not tree.fault]
    attempts = [turn for tree in finished for turn in first_attempts(tree)]
    found: list[Baseline] = []
    notes: list[str] = []
    try:
        budget = token_budget(finished)
        affordable = samples_for(budget, sum(map(sampled_tokens, attempts)) / max(1, len(attempts)))
    except ConfigError as error:
        return found, [f"The baselines are left out: {error}"]

    async def add(make: Callable[[AnswerOf], Baseline], voting: Sequence[Tree] = ()) -> None:
        """Add a baseline, given what the `voting` trees vote for."""
        try:
            found.append(make(await _answers_of(plan.problems, voting)))
        except (ModelError, ConfigError) as error:  # a lost sandbox, say, or no answers to vote on
            notes.append(f"A baseline is left out: {error}")

    async def played(
        name: str, change: Callable[[Game], Game], samples: int, rules: str, size: int = 0, play: Play = play
    ) -> list[Tree]:
        """The trees of a baseline; one whose size follows from the budget has a folder for each size."""
        config, seed = {**plan.config, "rules": rules}, derive_seed(plan.seed, name)
        folder = out / (f"{name}-{size}" if size else name) if out is not None else None
        part = replace(plan, samples=samples, seed=seed, config=config)
        return await _play(play, change, part, folder, on_tree)

    alone = partial(_solver_alone, revisions=0)
    pool = max(plan.samples, _with_spare(affordable))
    votes = await played("baseline-vote", alone, pool, "solve, 0 revisions")
    if (needed := votes_for(finished, votes)) > pool:  # the team's own attempts were longer
        votes = await played("baseline-vote", alone, _with_spare(needed), "solve, 0 revisions")
    revisions = math.ceil(1.5 * affordable)  # revisions tend to be shorter than first attempts
    revise = partial(_solver_alone, revisions=revisions)
    rules = f"solve, {revisions} revisions"
    refined = await played("baseline-refine", revise, plan.samples, rules, revisions)
    voted_by = _voted_by(plan.problems)
    await add(lambda _: single(finished, votes))
    await add(lambda answer_of: majority_vote(finished, votes, answer_of, voted_by), votes)
    await add(lambda _: refinement(finished, refined))
    cut = any(turn.action.truncated for turn in attempts)
    if cut and isinstance(play, LocalPlay) and (own := play.limit_of(SOLVER)) is not None:
        limit = math.ceil(budget)
        if limit > own:
            rules, longer = f"solve, {limit} tokens", play.longer(SOLVER, limit)
            written = await played("baseline-go-on", alone, plan.samples, rules, limit, longer)
            detail = f"1 sample, {limit} tokens"
            await add(lambda _: replace(single(finished, written, CONTINUED), detail=detail))
        else:
            why = f"the System's {limit} tokens a problem are no more than the Solver's limit of {own}"
            notes.append(f"{CONTINUED}: left out, since {why}")
    if VERIFIER in plan.game.rules.possible_agents:
        checked = await played("baseline-verified", _solver_and_verifier, pool, "solve, verify once")
        await add(lambda answer_of: weighted_vote(finished, checked, answer_of, voted_by), checked)
        await add(lambda _: retries(finished, checked))
    await add(lambda _: oracle(finished, votes))
    return found, notes


def _with_spare(samples: int) -> int:
    """A pool for votes of so many samples: lengths vary."""
    return math.ceil(1.25 * samples) + 1


async def _answers_of(problems: Iterable[Problem], trees: Sequence[Tree]) -> AnswerOf:
    """What first attempts vote for: as the final choice of a search, see `mars_env.envs.selection.Vote`."""
    by_id = {problem.id: problem for problem in problems}
    found: dict[tuple[str, str], Hashable | None] = {}
    for tree in trees:
        turns = first_attempts(tree)
        votes = await cast_votes(by_id[tree.problem.id], [turn.text for turn in turns])
        found.update(((turn.tree_id, turn.id), vote) for turn, vote in zip(turns, votes, strict=True))
    return lambda turn: found.get((turn.tree_id, turn.id))


def _voted_by(problems: Iterable[Problem]) -> str:
    """What is counted in a vote, where it is not the final answer."""
    from mars_env.grading.code.grader import has_inputs  # brings the sandbox

    kinds = {"outputs for public inputs" if has_inputs(p) else "text" for p in problems if p.kind == "code"}
    return " or ".join(sorted(kinds))


def _evaluated(game: Game) -> Game:
    """The game with the grader of an evaluation: a rubric may have another judge than in training."""
    other = getattr(game.grader, "for_evaluation", None)
    return game if other is None else replace(game, grader=other())


def _solver_alone(game: Game, revisions: int) -> Game:
    """The game that the Solver plays alone."""
    return _evaluated(replace(game, rules=Solve(revisions), team_reward=None, grower=Linear, visibility=None))


def _solver_and_verifier(game: Game) -> Game:
    """The game in which the Solver answers and the Verifier judges once."""
    rules = SolveVerifyCorrect(Schedule(rounds=0), bool(getattr(game.rules, "public_feedback", False)))
    return _evaluated(replace(game, rules=rules, team_reward=None, grower=Linear))


async def _play(
    play: Play, change: Callable[[Game], Game], plan: Plan, out: Path | None, on_tree: OnTree | None
) -> list[Tree]:
    """All trees of a plan, played now or found in the store."""
    trees: dict[str, Tree] = {}
    jobs, problems = plan.jobs, list(plan.problems)
    with Store(out, plan.identity, problems) if out is not None else nullcontext() as store:
        owed = [job for job in jobs if store is None or job.tree_id not in store.finished]
        played = play(owed, seed=plan.seed, concurrency=plan.concurrency, journal=store, change=change)
        async with aclosing(played):
            async for tree in played:
                trees[tree.id] = tree
                if on_tree is not None:
                    on_tree(tree)
    if out is not None and len(trees) < len(jobs):
        trees = {tree.id: tree for tree in read_run(out).trees} | trees
    return [trees[job.tree_id] for job in jobs]
