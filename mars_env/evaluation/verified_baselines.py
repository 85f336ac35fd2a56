"""Equal-token baselines with the team's own Verifier but no Corrector: a weighted vote, and fresh retries.

They answer whether a team's gain comes from correcting, or from a Verifier that chooses among fresh
attempts. The Verifier's tokens are counted as the Solver's are. Beside them stands what no baseline can
reach without the reference: pass@k, whether any of the samples is right.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mars_env.errors import ConfigError
from mars_env.evaluation.baselines import (
    Baseline,
    baseline_of,
    left_out,
    samples_for,
    shared_trees,
    token_budget,
)
from mars_env.evaluation.statistics import pass_at_k
from mars_env.evaluation.trees import AnswerOf, first_attempts, is_right, sampled_tokens
from mars_env.seeds import derive_seed
from mars_env.text import counted
from mars_env.types import Tree

SUBSETS = 2000
"""How many subsets of a problem's attempts a weighted vote is averaged over, if there are more."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One attempt and what the Verifier said of it.

    Attributes:
        right: Whether it is right.
        answer: What it votes for; None if it holds no answer.
        accepted: Whether the Verifier called it Correct.
        tokens: Tokens sampled for it, by the Solver and by the Verifier.
    """

    right: bool
    answer: Hashable | None
    accepted: bool
    tokens: int


def checked_attempts(trees: Sequence[Tree], answer_of: AnswerOf) -> dict[str, list[Checked]]:
    """The attempts by problem, each with the first verdict on it; left out where either is unknown."""
    found: dict[str, list[Checked]] = {}
    for tree in trees:
        attempts = found.setdefault(tree.problem.id, [])
        for attempt in first_attempts(tree):
            right = is_right(attempt)
            verdicts = [t for t in tree.turns if t.parent_id == attempt.id and "verdict" in t.info]
            if right is None or not verdicts or verdicts[0].action.interrupted:
                continue
            tokens = sampled_tokens(attempt) + sampled_tokens(verdicts[0])
            accepted = verdicts[0].info["verdict"] == "Correct"
            attempts.append(Checked(right, answer_of(attempt), accepted, tokens))
    return found


def weighted_vote(
    system: Sequence[Tree],
    pool: Sequence[Tree],
    answer_of: AnswerOf,
    voted_by: str = "",
    name: str = "Solver and Verifier, weighted vote",
) -> Baseline:
    """A vote of as many verified attempts as the System's tokens buy; those that the Verifier accepts decide.

    Where none of them is accepted, all of them vote. A tie is split evenly. The accuracy is the mean over all
    subsets of the pool, or over 2,000 of them drawn with a fixed seed.

    Args:
        system: The team's trees.
        pool: Trees that begin with an attempt and a verdict on it.
        answer_of: What a turn votes for.
        voted_by: What that is, for the table.
        name: What was done, for the table.

    Raises:
        ConfigError: If the problems differ, or the pool is too small for most of them.
    """
    attempts = checked_attempts(shared_trees(system, pool, "the pool of verified attempts"), answer_of)
    k, tokens = _affordable(system, attempts)
    accuracy = {
        problem: _voted(problem, samples, k) for problem, samples in attempts.items() if len(samples) >= k
    }
    short = len(attempts) - len(accuracy)
    if 2 * short > len(attempts):
        raise ConfigError(
            f"a weighted vote at the System's tokens takes {k} verified attempts, but for {short} of "
            f"{len(attempts)} problems the pool has fewer; draw more samples"
        )
    detail = counted(k, "vote") + (f" by {voted_by}" if voted_by else "") + left_out(short)
    return baseline_of(name, detail, system, accuracy, k * tokens)


def retries(
    system: Sequence[Tree], pool: Sequence[Tree], name: str = "Solver and Verifier, fresh retries"
) -> Baseline:
    """Fresh attempts until the Verifier accepts one, at most as many as the System's tokens buy.

    The most is the least number whose expected cost reaches the budget; if the Verifier accepts too early for
    that, all of the pool, and the baseline is `short`. Where no attempt is accepted, the last is the answer.
    Accuracy and cost are exact over all orders of the pool.

    Args:
        system: The team's trees.
        pool: Trees that begin with an attempt and a verdict on it.
        name: What was done, for the table.

    Raises:
        ConfigError: If the problems differ, or no attempt has a known grade and verdict.
    """
    attempts = checked_attempts(
        shared_trees(system, pool, "the pool of verified attempts"), lambda turn: None
    )
    known = {problem: samples for problem, samples in attempts.items() if samples}
    if not known:
        raise ConfigError("no attempt of the pool has a known grade and a verdict")
    budget = token_budget(system)
    longest = max(map(len, known.values()))
    for most in range(1, longest + 1):
        tried = {problem: _retried(samples, most) for problem, samples in known.items()}
        tokens = float(np.mean([cost for _, cost in tried.values()]))
        if tokens >= budget:
            break
    accuracy = {problem: right for problem, (right, _) in tried.items()}
    return baseline_of(name, f"up to {most} tries", system, accuracy, tokens, short=tokens < 0.99 * budget)


def oracle(
    system: Sequence[Tree], pool: Sequence[Tree], name: str = "Oracle, any sample right (pass@k)"
) -> Baseline:
    """Pass@k at the System's tokens: what a perfect choice among fresh attempts would reach.

    Args:
        system: The team's trees.
        pool: Trees whose root turns are independent attempts.
        name: What it is, for the table.

    Raises:
        ConfigError: If the problems differ, or the pool is too small for all of them.
    """
    samples: dict[str, list[tuple[bool, int]]] = {}
    for tree in shared_trees(system, pool, "the pool of samples"):
        known = samples.setdefault(tree.problem.id, [])
        for turn in first_attempts(tree):
            if (right := is_right(turn)) is not None:
                known.append((right, sampled_tokens(turn)))
    if not any(samples.values()):
        raise ConfigError("no attempt of the pool has a known grade")
    a_sample = float(np.mean([np.mean([n for _, n in each]) for each in samples.values() if each]))
    k = samples_for(token_budget(system), a_sample)
    accuracy = {
        problem: pass_at_k(len(each), sum(right for right, _ in each), k)
        for problem, each in samples.items()
        if len(each) >= k
    }
    if not accuracy:
        raise ConfigError(f"pass@{k} needs {k} samples with a known grade: draw more")
    detail = counted(k, "sample") + left_out(len(samples) - len(accuracy))
    return baseline_of(name, detail, system, accuracy, k * a_sample)


def _affordable(system: Sequence[Tree], attempts: Mapping[str, Sequence[Checked]]) -> tuple[int, float]:
    """How many verified attempts the System's tokens buy, and what one costs."""
    costs = [np.mean([each.tokens for each in samples]) for samples in attempts.values() if samples]
    if not costs:
        raise ConfigError("no attempt of the pool has a known grade and a verdict")
    tokens = float(np.mean(costs))
    return samples_for(token_budget(system), tokens), tokens


def _voted(problem: str, samples: Sequence[Checked], k: int) -> float:
    """The mean accuracy of a weighted vote of k of the samples."""
    results = [_elected([samples[i] for i in chosen]) for chosen in _subsets(problem, len(samples), k)]
    return sum(results) / len(results)


def _subsets(problem: str, n: int, k: int) -> Iterator[Sequence[int]]:
    if math.comb(n, k) <= SUBSETS:
        yield from combinations(range(n), k)
        return
    generator = np.random.default_rng(derive_seed("weighted vote", problem, n, k))
    for _ in range(SUBSETS):
        yield generator.permutation(n)[:k].tolist()


def _elected(samples: Sequence[Checked]) -> float:
    """How right the winner of a vote is, the accepted alone voting where there are any."""
    voters = [each for each in samples if each.answer is not None]
    voters = [each for each in voters if each.accepted] or voters
    votes: dict[Hashable, list[bool]] = {}
    for each in voters:
        votes.setdefault(each.answer, []).append(each.right)
    if not votes:
        return 0.0
    most = max(map(len, votes.values()))
    leaders = [sum(right) / len(right) for right in votes.values() if len(right) == most]
    return sum(leaders) / len(leaders)


def _retried(samples: Sequence[Checked], most: int) -> tuple[float, float]:
    """Expected accuracy and tokens of at most so many tries, over all orders of the samples."""
    accepted = [each for each in samples if each.accepted]
    rejected = [each for each in samples if not each.accepted]
    n, bad = len(samples), len(rejected)
    most = min(most, n)
    # The chance that the first i of n samples are all rejected.
    none = [math.comb(bad, i) / math.comb(n, i) for i in range(most + 1)]
    right = tokens = 0.0
    if accepted:
        right += (1 - none[most]) * sum(each.right for each in accepted) / len(accepted)
        tokens += (1 - none[most]) * sum(each.tokens for each in accepted) / len(accepted)
    if rejected:
        right += none[most] * sum(each.right for each in rejected) / bad
        tokens += sum(none[1:]) * sum(each.tokens for each in rejected) / bad
    return right, tokens
