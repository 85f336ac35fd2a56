"""Plays the equal-token baselines of an evaluation: what the System's tokens buy without the team."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from mars_env.envs.game import Game
from mars_env.envs.growers import Linear
from mars_env.envs.marsrl import SOLVER, VERIFIER, solve_verify_correct
from mars_env.envs.selection import cast_votes
from mars_env.envs.solving import self_refine
from mars_env.errors import ConfigError, ModelError
from mars_env.evaluation import baselines
from mars_env.evaluation.baselines import Baseline
from mars_env.evaluation.plan import LocalPlay, OnTree, Plan, Play, evaluated_game, play_trees
from mars_env.evaluation.trees import AnswerOf, first_attempts, sampled_tokens
from mars_env.seeds import derive_seed
from mars_env.types import Problem, Tree

CONTINUED = "Single agent, going on writing"


def require_solver(game: Game) -> None:
    """Raise ConfigError unless the Solver can play the game alone."""
    if game.visibility is not None and game.visibility.searched:
        raise ConfigError("a search's baselines are searches: compare it with 'best-of-n' and 'refinement'")
    if SOLVER not in game.rules.possible_agents:
        names = ", ".join(game.rules.possible_agents)
        raise ConfigError(f"baselines need a Solver to play alone; the agents are {names}")


async def play_baselines(
    plan: Plan, play: Play, trees: Sequence[Tree], out: Path | None, on_tree: OnTree | None
) -> tuple[list[Baseline], list[str]]:
    """The baselines of a run whose trees these are, and notes on those that could not be computed."""
    system = [tree for tree in trees if not tree.fault]
    lengths = [sampled_tokens(turn) for tree in system for turn in first_attempts(tree)]
    try:
        budget = baselines.token_budget(system)
        affordable = baselines.samples_for(budget, sum(lengths) / max(1, len(lengths)))
    except ConfigError as error:
        return [], [f"The baselines are left out: {error}"]
    runs = _BaselineRuns(plan, play, system, out, on_tree)
    votes = await runs.play_votes(affordable)
    refined = await runs.play_revisions(math.ceil(1.5 * affordable))  # they tend to be shorter than attempts
    voted_by = _voted_by(plan.problems)
    await runs.add(lambda _: baselines.single(system, votes))
    await runs.add(lambda answer_of: baselines.majority_vote(system, votes, answer_of, voted_by), votes)
    await runs.add(lambda _: baselines.refinement(system, refined))
    await runs.add_longer(math.ceil(budget))
    if VERIFIER in plan.game.rules.possible_agents:
        samples = _pool_size(plan, affordable)
        checked = await runs.play("baseline-verified", _solver_and_verifier, samples, "solve, verify once")
        await runs.add(
            lambda answer_of: baselines.weighted_vote(system, checked, answer_of, voted_by), checked
        )
        await runs.add(lambda _: baselines.retries(system, checked))
    await runs.add(lambda _: baselines.oracle(system, votes))
    return runs.baselines, runs.notes


@dataclass(slots=True)
class _BaselineRuns:
    """Plays the trees of baselines, each kind in its folder, and collects what follows from them."""

    plan: Plan
    local: Play
    system: Sequence[Tree]
    out: Path | None
    on_tree: OnTree | None
    baselines: list[Baseline] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    async def add(self, make: Callable[[AnswerOf], Baseline], voting: Sequence[Tree] = ()) -> None:
        """Add a baseline, given what the `voting` trees vote for."""
        try:
            self.baselines.append(make(await _answers_of(self.plan.problems, voting)))
        except (ModelError, ConfigError) as error:  # a lost sandbox, say, or no answers to vote on
            self.notes.append(f"A baseline is left out: {error}")

    async def play(
        self,
        name: str,
        change: Callable[[Game], Game],
        samples: int,
        rules: str,
        size: int = 0,
        play: Play | None = None,
    ) -> list[Tree]:
        """The trees of a baseline; one whose size follows from the budget has a folder for each size."""
        config = {**self.plan.config, "must_match": {**self.plan.config["must_match"], "rules": rules}}
        folder = self.out / (f"{name}-{size}" if size else name) if self.out is not None else None
        plan = replace(self.plan, samples=samples, seed=derive_seed(self.plan.seed, name), config=config)
        return await play_trees(play or self.local, change, plan, folder, self.on_tree)

    async def play_votes(self, affordable: int) -> list[Tree]:
        """Attempts of the Solver alone, more of them if the team's own attempts were longer."""
        alone, rules = partial(_solver_alone, revisions=0), "solve, 0 revisions"
        size = _pool_size(self.plan, affordable)
        votes = await self.play("baseline-vote", alone, size, rules)
        if (needed := baselines.votes_for(self.system, votes)) > size:
            votes = await self.play("baseline-vote", alone, _with_spare(needed), rules)
        return votes

    async def play_revisions(self, revisions: int) -> list[Tree]:
        """Attempts that the Solver revises alone."""
        revise, rules = partial(_solver_alone, revisions=revisions), f"solve, {revisions} revisions"
        return await self.play("baseline-refine", revise, self.plan.samples, rules, revisions)

    async def add_longer(self, limit: int) -> None:
        """Add the Solver that goes on writing up to the System's tokens, where its own limit cut it off."""
        is_cut = any(turn.action.truncated for tree in self.system for turn in first_attempts(tree))
        own_limit = self.local.limit_of(SOLVER) if isinstance(self.local, LocalPlay) else None
        if not is_cut or own_limit is None or not isinstance(self.local, LocalPlay):
            return
        if limit <= own_limit:
            why = f"the System's {limit} tokens a problem are no more than the Solver's limit of {own_limit}"
            self.notes.append(f"{CONTINUED}: left out, since {why}")
            return
        alone, longer = partial(_solver_alone, revisions=0), self.local.longer(SOLVER, limit)
        rules, samples = f"solve, {limit} tokens", self.plan.samples
        written = await self.play("baseline-go-on", alone, samples, rules, limit, longer)
        detail = f"1 sample, {limit} tokens"
        await self.add(lambda _: replace(baselines.single(self.system, written, CONTINUED), detail=detail))


def _pool_size(plan: Plan, affordable: int) -> int:
    return max(plan.samples, _with_spare(affordable))


def _with_spare(samples: int) -> int:
    """A pool for votes of so many samples: lengths vary."""
    return math.ceil(1.25 * samples) + 1


async def _answers_of(problems: Iterable[Problem], trees: Sequence[Tree]) -> AnswerOf:
    """What first attempts vote for: as the final choice of a search, see `mars_env.envs.selection.Vote`."""
    by_id = {problem.id: problem for problem in problems}
    votes_by_turn: dict[tuple[str, str], Hashable | None] = {}
    for tree in trees:
        turns = first_attempts(tree)
        votes = await cast_votes(by_id[tree.problem.id], [turn.text for turn in turns])
        votes_by_turn.update(((turn.tree_id, turn.id), vote) for turn, vote in zip(turns, votes, strict=True))
    return lambda turn: votes_by_turn.get((turn.tree_id, turn.id))


def _voted_by(problems: Iterable[Problem]) -> str:
    """What is counted in a vote, where it is not the final answer."""
    from mars_env.grading.code.grader import has_inputs  # brings the sandbox

    kinds = {"outputs for public inputs" if has_inputs(p) else "text" for p in problems if p.kind == "code"}
    return " or ".join(sorted(kinds))


def _solver_alone(game: Game, revisions: int) -> Game:
    rules = self_refine(revisions=revisions)
    return evaluated_game(replace(game, rules=rules, team_reward=None, grower=Linear, visibility=None))


def _solver_and_verifier(game: Game) -> Game:
    feedback = bool(getattr(game.rules.settings, "public_feedback", False))
    rules = solve_verify_correct(rounds=0, public_feedback=feedback)
    return evaluated_game(replace(game, rules=rules, team_reward=None, grower=Linear))
