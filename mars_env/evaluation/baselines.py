"""Equal-token baselines: what a single agent reaches with the tokens of the whole team.

The budget is the System's mean number of sampled tokens per episode. A baseline's size (samples, or steps of
a sequence) follows from it, rounded *up*, so that a System never wins by having more tokens. All raise
ConfigError if their trees are of other problems than the System's, or hold no known grade.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mars_env.errors import ConfigError
from mars_env.evaluation.metrics import measure
from mars_env.evaluation.problems import require_same_problems
from mars_env.evaluation.statistics import Estimate, difference, maj_at_k, mean, pass_at_k
from mars_env.evaluation.trees import AnswerOf, by_problem, first_attempts, is_right, sampled_tokens
from mars_env.seeds import derive_seed
from mars_env.text import counted
from mars_env.types import Tree, Turn

SUBSETS = 2000
"""How many subsets of a problem's attempts a weighted vote is averaged over, if there are more."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """One way to spend the System's tokens without a team; `detail` is how its size was chosen.

    `tokens` is the mean a problem, `system_minus` the System minus this, paired by problem; it is `short` if
    its episodes ended before they had spent the budget.
    """

    name: str
    detail: str
    accuracy: Estimate
    tokens: float
    system_minus: Estimate
    short: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One answer that a baseline may draw: whether it is right, if known, and accepted; what it votes for."""

    right: bool | None
    tokens: int
    answer: Hashable | None = None
    accepted: bool = False


Attempts = Mapping[str, Sequence[Attempt]]  # by problem


def token_budget(trees: Sequence[Tree]) -> float:
    """The System's mean tokens an episode, problems of equal weight; a `ConfigError` if none are known."""
    return _System.of(trees).budget


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
    attempts = _attempts(pool)
    return samples_for(token_budget(system), _mean_tokens(attempts)) if any(attempts.values()) else 0


def single(
    system: Sequence[Tree], samples: Sequence[Tree], name: str = "Single agent, one sample"
) -> Baseline:
    """One attempt by one agent: the root turns of `samples`, which may be the team's own."""
    against = _System.of(system)
    attempts = _attempts(against.shared(samples, "the baseline's run"))
    rates = _known_rates(name, {problem: _share(samples) for problem, samples in attempts.items()})
    return against.baseline(name, "1 sample", rates, _mean_tokens(attempts))


def majority_vote(
    system: Sequence[Tree],
    pool: Sequence[Tree],
    answer_of: AnswerOf,
    voted_by: str = "",
    name: str = "Single agent, majority vote",
) -> Baseline:
    """A vote of as many samples as the System's tokens buy, exact over all subsets of a pool (`maj_at_k`).

    `answer_of` says what a turn votes for, `voted_by` what that is, for the table. A `ConfigError` if the
    pool's root turns are too few for most problems.
    """
    against = _System.of(system)
    attempts = _attempts(against.shared(pool, "the pool of samples"), answer_of)

    def accuracy(_: str, samples: Sequence[Attempt], k: int) -> float:
        return maj_at_k([sample.answer for sample in samples], [bool(sample.right) for sample in samples], k)

    return against.drawn(name, "vote", voted_by, accuracy, _graded(attempts), _mean_tokens(attempts))


def weighted_vote(
    system: Sequence[Tree], pool: Sequence[Tree], answer_of: AnswerOf, voted_by: str = ""
) -> Baseline:
    """A vote among attempts that begin with a verdict: those that the Verifier accepts decide, else all vote.

    A tie is split evenly. The accuracy is the mean over all subsets of the pool, or over `SUBSETS` of them
    drawn with a fixed seed. Arguments and errors are those of `majority_vote`.
    """
    against = _System.of(system)
    attempts = checked_attempts(against.shared(pool, "the pool of verified attempts"), answer_of)
    name = "Solver and Verifier, weighted vote"
    return against.drawn(name, "vote", voted_by, _voted, attempts, _mean_tokens(attempts))


def oracle(system: Sequence[Tree], pool: Sequence[Tree]) -> Baseline:
    """Pass@k at the System's tokens: what a perfect choice among fresh attempts would reach."""
    against = _System.of(system)
    attempts = _graded(_attempts(against.shared(pool, "the pool of samples")))

    def accuracy(_: str, samples: Sequence[Attempt], k: int) -> float:
        return pass_at_k(len(samples), sum(bool(sample.right) for sample in samples), k)

    name = "Oracle, any sample right (pass@k)"
    return against.drawn(name, "sample", "", accuracy, attempts, _mean_tokens(attempts))


def refinement(system: Sequence[Tree], refined: Sequence[Tree]) -> Baseline:
    """An agent that revises its own answer, as often as the System's tokens allow.

    The number of turns is the least whose mean cost over all trees reaches the budget; the answer is the last
    graded turn among them. A `ConfigError` if a tree branches.
    """
    against = _System.of(system)
    finished = [tree for tree in against.shared(refined, "the refinements' run") if not tree.fault]
    chains = {problem: list(map(_chain, group)) for problem, group in by_problem(finished).items()}
    longest = max((len(chain) for of_problem in chains.values() for chain in of_problem), default=0)
    if not longest:
        raise ConfigError("no refinement was finished; run them again")

    def outcomes(turns: int) -> Outcomes:
        return {problem: _refined([chain[:turns] for chain in some]) for problem, some in chains.items()}

    name = "Single agent, self-refinement"
    return against.grown(name, lambda turns: counted(turns, "turn"), longest, outcomes)


def retries(system: Sequence[Tree], pool: Sequence[Tree]) -> Baseline:
    """Fresh attempts until the Verifier accepts one, at most as many as the System's tokens buy.

    The limit is the least number whose expected cost reaches the budget, or all of the pool. Where no attempt
    is accepted, the last is the answer. Accuracy and cost are exact over all orders of the pool.
    """
    against = _System.of(system)
    attempts = checked_attempts(against.shared(pool, "the pool of verified attempts"), lambda turn: None)
    pools = {problem: samples for problem, samples in attempts.items() if samples}
    if not pools:
        raise ConfigError("no attempt of the pool has a known grade and a verdict")

    def outcomes(tries: int) -> Outcomes:
        return {problem: _retried(samples, tries) for problem, samples in pools.items()}

    longest = max(map(len, pools.values()))
    name = "Solver and Verifier, fresh retries"
    return against.grown(name, lambda tries: f"up to {tries} tries", longest, outcomes)


def checked_attempts(trees: Sequence[Tree], answer_of: AnswerOf) -> dict[str, list[Attempt]]:
    """The attempts by problem, each with the first verdict on it; left out where either is unknown."""
    by_problem: dict[str, list[Attempt]] = {}
    for tree in trees:
        attempts = by_problem.setdefault(tree.problem.id, [])
        for attempt in first_attempts(tree):
            right = is_right(attempt)
            verdicts = [t for t in tree.turns if t.parent_id == attempt.id and t.accepts is not None]
            if right is None or not verdicts or verdicts[0].action.interrupted:
                continue
            tokens = sampled_tokens(attempt) + sampled_tokens(verdicts[0])
            attempts.append(Attempt(right, tokens, answer_of(attempt), bool(verdicts[0].accepts)))
    return by_problem


Outcomes = Mapping[str, tuple[float | None, float]]
"""By problem: accuracy, None where no grade is known, and tokens."""

Accuracy = Callable[[str, Sequence[Attempt], int], float]
"""Of k of a problem's samples."""


@dataclass(frozen=True, slots=True)
class _System:
    trees: Sequence[Tree]
    budget: float
    accuracy: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, trees: Sequence[Tree]) -> "_System":
        pairs = {name: metric.pairs for name, metric in measure(trees).items()}
        if "tokens" not in pairs:
            raise ConfigError("equal-token baselines need a finished episode whose sampled tokens are known")
        sums = [sum(column) for column in zip(*pairs["tokens"].values(), strict=True)]
        return cls(trees, sums[0] / sums[1], pairs.get("system_accuracy", {}))

    def shared(self, trees: Sequence[Tree], name: str) -> list[Tree]:
        """The baseline's trees on the System's problems; it must have all of them."""
        problems = {tree.problem.id for tree in self.trees}
        shared = [tree for tree in trees if tree.problem.id in problems]
        require_same_problems(self.trees, shared, ("the System's run", name))
        return shared

    def drawn(
        self, name: str, unit: str, voted_by: str, accuracy: Accuracy, attempts: Attempts, tokens: float
    ) -> Baseline:
        """A baseline of as many samples as the budget buys at so many tokens each."""
        k = samples_for(self.budget, tokens)
        enough = {problem: samples for problem, samples in attempts.items() if len(samples) >= k}
        rates = {problem: accuracy(problem, samples, k) for problem, samples in enough.items()}
        short = len(attempts) - len(rates)
        if 2 * short > len(attempts):
            needed = f"{name!r} takes {counted(k, 'graded sample')} at {self.budget:.0f} tokens a problem"
            raise ConfigError(f"{needed}; {short} of {len(attempts)} problems have fewer: draw more samples")
        detail = counted(k, unit) + (f" by {voted_by}" if voted_by else "")
        detail += f", problems left out for lack of samples: {short}" if short else ""
        return self.baseline(name, detail, rates, k * tokens)

    def grown(
        self, name: str, detail: Callable[[int], str], longest: int, outcomes: Callable[[int], Outcomes]
    ) -> Baseline:
        """A baseline of the fewest steps whose mean cost reaches the budget, or of all there are."""
        for steps in range(1, longest + 1):
            results = outcomes(steps)
            tokens = float(np.mean([cost for _, cost in results.values()]))
            if tokens >= self.budget:
                break
        rates = _known_rates(name, {problem: right for problem, (right, _) in results.items()})
        return self.baseline(name, detail(steps), rates, tokens)

    def baseline(self, name: str, detail: str, accuracy: Mapping[str, float], tokens: float) -> Baseline:
        both = [(accuracy[p], 1.0, *pair) for p, pair in self.accuracy.items() if p in accuracy]
        minus = difference(*np.array(both).reshape(-1, 4).T)
        short = tokens < 0.99 * self.budget
        return Baseline(name, detail, mean(list(accuracy.values())), tokens, minus, short)


def _attempts(trees: Sequence[Tree], answer_of: AnswerOf = lambda turn: None) -> dict[str, list[Attempt]]:
    attempts: dict[str, list[Attempt]] = {}
    for problem, group in by_problem(trees).items():
        turns = [turn for tree in group for turn in first_attempts(tree)]
        attempts[problem] = [Attempt(is_right(t), sampled_tokens(t), answer_of(t)) for t in turns]
    return attempts


def _known_rates(name: str, shares: Mapping[str, float | None]) -> dict[str, float]:
    rates = {problem: right for problem, right in shares.items() if right is not None}
    if not rates:
        raise ConfigError(f"no attempt of the baseline {name!r} has a known grade")
    return rates


def _graded(attempts: Attempts) -> Attempts:
    return {problem: [a for a in some if a.right is not None] for problem, some in attempts.items()}


def _share(attempts: Sequence[Attempt]) -> float | None:
    verdicts = [attempt.right for attempt in attempts if attempt.right is not None]
    return sum(verdicts) / len(verdicts) if verdicts else None


def _mean_tokens(attempts: Attempts) -> float:
    means = [np.mean([attempt.tokens for attempt in some]) for some in attempts.values() if some]
    if not means:
        raise ConfigError("no attempt of the pool has a known grade")
    return float(np.mean(means))


def _refined(chains: Sequence[Sequence[Turn]]) -> tuple[float | None, float]:
    """The share of chains whose last graded turn is right, and their mean tokens."""
    last = [turn for chain in chains for turn in [t for t in chain if t.grade is not None][-1:]]
    attempts = [Attempt(is_right(turn), sampled_tokens(turn)) for turn in last]
    return _share(attempts), float(np.mean([sum(map(sampled_tokens, chain)) for chain in chains]))


def _chain(tree: Tree) -> list[Turn]:
    if len({turn.parent_id for turn in tree.turns}) != len(tree.turns):
        raise ConfigError(f"the tree {tree.id!r} branches; self-refinement needs episodes, which do not")
    return sorted(tree.turns, key=lambda turn: turn.id.count("."))


def _voted(problem: str, samples: Sequence[Attempt], k: int) -> float:
    results = [_elected([samples[i] for i in chosen]) for chosen in _subsets(problem, len(samples), k)]
    return sum(results) / len(results)


def _subsets(problem: str, n: int, k: int) -> Iterator[Sequence[int]]:
    if math.comb(n, k) <= SUBSETS:
        yield from combinations(range(n), k)
        return
    generator = np.random.default_rng(derive_seed("weighted vote", problem, n, k))
    for _ in range(SUBSETS):
        yield generator.permutation(n)[:k].tolist()


def _elected(samples: Sequence[Attempt]) -> float:
    """How right the winner of a vote is, the accepted alone voting where there are any."""
    voters = [sample for sample in samples if sample.answer is not None]
    voters = [sample for sample in voters if sample.accepted] or voters
    votes: dict[Hashable, list[bool]] = {}
    for sample in voters:
        votes.setdefault(sample.answer, []).append(bool(sample.right))
    if not votes:
        return 0.0
    most = max(map(len, votes.values()))
    leaders = [sum(right) / len(right) for right in votes.values() if len(right) == most]
    return sum(leaders) / len(leaders)


def _retried(samples: Sequence[Attempt], tries: int) -> tuple[float, float]:
    """Expected accuracy and tokens of at most so many tries, over all orders of the samples."""
    accepted = [sample for sample in samples if sample.accepted]
    rejected = [sample for sample in samples if not sample.accepted]
    n, bad = len(samples), len(rejected)
    tries = min(tries, n)
    # The chance that the first i of n samples are all rejected.
    none = [math.comb(bad, i) / math.comb(n, i) for i in range(tries + 1)]
    right = tokens = 0.0
    if accepted:
        right += (1 - none[tries]) * sum(bool(sample.right) for sample in accepted) / len(accepted)
        tokens += (1 - none[tries]) * sum(sample.tokens for sample in accepted) / len(accepted)
    if rejected:
        right += none[tries] * sum(bool(sample.right) for sample in rejected) / bad
        tokens += sum(none[1:]) * sum(sample.tokens for sample in rejected) / bad
    return right, tokens
