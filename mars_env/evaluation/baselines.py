"""Equal-token baselines: what a single agent reaches with the tokens of the whole team.

The budget is the System's mean number of sampled tokens per episode. A vote and a refinement spend at
least as much: the number of votes or of revisions is rounded *up*, the same for every problem, so that
a System never wins by having more tokens. A single attempt may end by itself before it has spent them, and
is then marked `short`. Each baseline shows the tokens that it really spent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mars_env.errors import ConfigError
from mars_env.evaluation.metrics import measure
from mars_env.evaluation.problems import require_same_problems
from mars_env.evaluation.statistics import Estimate, difference, maj_at_k, mean
from mars_env.evaluation.trees import (
    AnswerOf,
    by_problem,
    first_attempts,
    is_right,
    sampled_tokens,
    vote_samples,
)
from mars_env.text import counted
from mars_env.types import Tree, Turn


@dataclass(frozen=True, slots=True)
class Baseline:
    """One way to spend the System's tokens without a team.

    Attributes:
        name: What it is.
        detail: How its size was chosen.
        accuracy: With its interval.
        tokens: Mean sampled tokens a problem.
        system_minus: System minus this, paired by problem.
        short: Whether its episodes ended before they had spent the budget.
    """

    name: str
    detail: str
    accuracy: Estimate
    tokens: float
    system_minus: Estimate
    short: bool = False


def token_budget(trees: Sequence[Tree]) -> float:
    """The System's mean sampled tokens per episode: the mean over problems of the mean over samples.

    Raises:
        ConfigError: If no episode was finished, or no tokens were counted.
    """
    pairs = measure(trees).get("tokens")
    if pairs is None:
        raise ConfigError("no episode of the run was finished: there is no token budget to match")
    budget = sum(x for x, _ in pairs.pairs.values()) / sum(w for _, w in pairs.pairs.values())
    if not budget:
        raise ConfigError(
            "the run counts no sampled tokens: equal-token baselines need a model that reports them"
        )
    return budget


def samples_for(budget: float, tokens_a_sample: float) -> int:
    """How many samples a token budget buys, rounded up, at least one.

    Example:
        >>> samples_for(1000, 300), samples_for(10, 300)
        (4, 1)
    """
    if tokens_a_sample <= 0:
        raise ConfigError("a sample must have a positive number of tokens")
    # Sums of floats: exactly 4 samples' worth must not become 5.
    return max(1, math.ceil(budget / tokens_a_sample - 1e-9))


def votes_for(system: Sequence[Tree], pool: Sequence[Tree]) -> int:
    """How many attempts like those of a pool the System's tokens buy; 0 if the pool has none."""
    first = _first(pool)
    return samples_for(token_budget(system), _mean_tokens(first)) if any(first.values()) else 0


def left_out(problems: int) -> str:
    """What the size of a baseline says of the problems that lack samples."""
    return f", problems left out for lack of samples: {problems}" if problems else ""


def _mean_tokens(samples: dict[str, list[Turn]]) -> float:
    means = [np.mean([sampled_tokens(t) for t in turns]) for turns in samples.values() if turns]
    if not means:
        raise ConfigError("no attempt of one agent alone was finished")
    return float(np.mean(means))


def _system_against(system: Sequence[Tree], accuracy: dict[str, float]) -> Estimate:
    """System minus a baseline's accuracy by problem, over the problems where both are known."""
    known = measure(system).get("system_accuracy")
    pairs = {p: pair for p, pair in known.pairs.items() if p in accuracy} if known is not None else {}
    x = [pair[0] for pair in pairs.values()]
    return difference([accuracy[p] for p in pairs], [1.0] * len(pairs), x, [w for _, w in pairs.values()])


def baseline_of(
    name: str,
    detail: str,
    system: Sequence[Tree],
    accuracy: dict[str, float],
    tokens: float,
    short: bool = False,
) -> Baseline:
    """A baseline from its accuracy by problem and its tokens a problem, set against the System."""
    against = _system_against(system, accuracy)
    return Baseline(name, detail, mean(list(accuracy.values())), tokens, against, short)


def single(
    system: Sequence[Tree], samples: Sequence[Tree], name: str = "Single agent, one sample"
) -> Baseline:
    """One attempt by one agent; with a longer limit on its completions, it "simply continues to write".

    An attempt that ends by itself leaves tokens unspent: if it is `short`, the tokens are not equal.

    Args:
        system: The team's trees.
        samples: Trees whose root turns are the attempts; may be the team's own.
        name: What the agent did, for the table.

    Raises:
        ConfigError: If the two were played on different problems, or nothing was graded.
    """
    first = _first(shared_trees(system, samples, "the baseline's run"))
    accuracy = {}
    for problem, turns in first.items():
        judged = [r for t in turns if (r := is_right(t)) is not None]
        if judged:
            accuracy[problem] = sum(judged) / len(judged)
    if not accuracy:
        raise ConfigError(f"no attempt of the baseline {name!r} has a known grade")
    tokens = _mean_tokens(first)
    return baseline_of(name, "1 sample", system, accuracy, tokens, short=tokens < 0.99 * token_budget(system))


def shared_trees(system: Sequence[Tree], trees: Sequence[Tree], name: str) -> list[Tree]:
    """The baseline's trees on the System's problems; it must have all of them."""
    problems = {tree.problem.id for tree in system}
    shared = [tree for tree in trees if tree.problem.id in problems]
    require_same_problems(system, shared, ("the System's run", name))
    return shared


def _first(trees: Sequence[Tree]) -> dict[str, list[Turn]]:
    return {p: [t for x in group for t in first_attempts(x)] for p, group in by_problem(trees).items()}


def majority(
    system: Sequence[Tree],
    pool: Sequence[Tree],
    answer_of: AnswerOf,
    voted_by: str = "",
    name: str = "Single agent, majority vote",
) -> Baseline:
    """A majority vote of as many samples as the System's tokens buy, drawn from a pool of attempts.

    Its accuracy is exact over all subsets of the pool (`statistics.maj_at_k`).

    Args:
        system: The team's trees.
        pool: Trees whose root turns are independent attempts, at least as many a problem as the vote needs.
        answer_of: What a turn votes for.
        voted_by: What that is, for the table.
        name: What the agent did, for the table.

    Raises:
        ConfigError: If the problems differ, or the pool is too small for most of them; the message says
            how many it needs. A problem with too few known grades is left out.
    """
    budget = token_budget(system)
    first = _first(shared_trees(system, pool, "the pool of samples"))
    a_sample = _mean_tokens(first)
    k = samples_for(budget, a_sample)
    accuracy = {}
    for problem, turns in first.items():
        answers, judged = vote_samples(turns, answer_of)
        if len(judged) >= k:
            accuracy[problem] = maj_at_k(answers, judged, k)
    short = len(first) - len(accuracy)
    if 2 * short > len(first):
        raise ConfigError(
            f"a majority vote at the System's {budget:.0f} tokens a problem takes {k} samples with a known "
            f"grade, but for {short} of {len(first)} problems the pool has fewer; draw more samples"
        )
    detail = counted(k, "vote") + (f" by {voted_by}" if voted_by else "") + left_out(short)
    return baseline_of(name, detail, system, accuracy, k * a_sample)


def refinement(
    system: Sequence[Tree], refined: Sequence[Tree], name: str = "Single agent, self-refinement"
) -> Baseline:
    """An agent that revises its own answer as often as the System's tokens allow.

    The number of turns is the least whose mean cost over all trees reaches the budget; the answer
    is the last graded turn among them.

    Args:
        system: The team's trees.
        refined: Episodes in which one agent revises its answer turn by turn, each turn graded.
        name: What the agent did, for the table.

    Raises:
        ConfigError: If the problems differ, a tree branches, or nothing was graded.
    """
    budget = token_budget(system)
    played = by_problem(shared_trees(system, refined, "the refinements' run"))
    groups = {p: [_chain(x) for x in group if not x.fault] for p, group in played.items()}
    groups = {p: chains for p, chains in groups.items() if chains}
    longest = max((len(chain) for chains in groups.values() for chain in chains), default=0)
    if not longest:
        raise ConfigError("no refinement was finished; run them again")
    costs = [
        float(
            np.mean(
                [np.mean([sum(map(sampled_tokens, c[:n])) for c in chains]) for chains in groups.values()]
            )
        )
        for n in range(1, longest + 1)
    ]
    turns = next((n for n, cost in enumerate(costs, 1) if cost >= budget), longest)
    cost = costs[turns - 1]
    accuracy = {}
    for problem, chains in groups.items():
        last = [[t for t in chain[:turns] if t.grade is not None][-1:] for chain in chains]
        judged = [r for answer in last for t in answer if (r := is_right(t)) is not None]
        if judged:
            accuracy[problem] = sum(judged) / len(judged)
    if not accuracy:
        raise ConfigError("no refinement has a known grade")
    return baseline_of(name, counted(turns, "turn"), system, accuracy, cost, short=cost < 0.99 * budget)


def _chain(tree: Tree) -> list[Turn]:
    """The turns of an episode from first to last."""
    child = {t.parent_id: t for t in tree.turns}
    if len(child) != len(tree.turns):
        raise ConfigError(f"the tree {tree.id!r} branches; self-refinement needs episodes, which do not")
    chain: list[Turn] = []
    parent: str | None = None
    while parent in child:
        chain.append(child[parent])
        parent = child[parent].id
    return chain
