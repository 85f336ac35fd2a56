"""What a run says in metrics: accuracies, precision and recall, fixes and breaks, cost.

`docs/evaluation.md` defines each one. A grade UNKNOWN is left out of every rate and counted by its reason.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

import numpy as np

from mars_env.errors import ConfigError
from mars_env.evaluation.statistics import Estimate, Scale, intervals, maj_at_k, optional, pass_at_k
from mars_env.evaluation.trees import (
    AnswerOf,
    any_right,
    by_problem,
    depth,
    first_attempts,
    first_verdicts,
    is_right,
    is_search,
    judged_turn,
    judgements,
    judging_tokens,
    known_verdicts,
    prompt_tokens,
    rounds,
    sampled_tokens,
    system_right,
)
from mars_env.text import brief, logger, one_line, raised
from mars_env.types import Tree, Turn

log = logger(__name__)

Pair = tuple[float, float]

TITLES: Mapping[str, tuple[str, Scale]] = {
    "solver_accuracy": ("Solver accuracy, avg@n", "rate"),
    "system_accuracy": ("System accuracy, avg@n", "rate"),
    "gain": ("System minus Solver, paired", "difference"),
    "search_pass@n": ("Search Pass@N, any node", "rate"),
    "node_accuracy": ("Nodes right", "rate"),
    "verifier_precision": ("Verifier precision (errors)", "rate"),
    "verifier_recall": ("Verifier recall (errors)", "rate"),
    "acceptance_precision": ("Verifier precision (acceptance)", "rate"),
    "acceptance_recall": ("Verifier recall (acceptance)", "rate"),
    "verifier_accuracy": ("Verifier accuracy", "rate"),
    "malformed": ("Verdicts malformed", "rate"),
    "fix_rate": ("Corrector fix rate (wrong to right)", "rate"),
    "break_rate": ("Corrector break rate (right to wrong)", "rate"),
    "rounds": ("Verifications an episode", "amount"),
    "nodes": ("Nodes a tree", "amount"),
    "depth": ("Depth of a tree", "amount"),
    "calls": ("Model calls an episode", "amount"),
    "solver_tokens": ("Tokens a first attempt", "amount"),
    "tokens": ("Tokens an episode", "amount"),
    "judging_tokens": ("of these, for judging", "amount"),
    "prompt_tokens": ("Prompt tokens an episode", "amount"),
}

_NAMED_TITLES: Mapping[str, tuple[str, Scale]] = {
    "share": ("Share of nodes, {}", "rate"),
    "right": ("Nodes right, {}", "rate"),
    "answers": ("Share of final answers, {}", "rate"),
    "accuracy": ("Turns right, {}", "rate"),
    "reward": ("Mean reward, {}", "value"),
}
"""Of an agent or a role, whose name stands after a colon in the metric's name."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: numerator and denominator by problem id, absent without data.

    `averaged`: whether it is a mean over problems, each of equal weight, and not a share of what occurred.
    """

    name: str
    title: str
    scale: Scale
    pairs: Mapping[str, Pair]
    averaged: bool = False


def powers_of_two(limit: int) -> tuple[int, ...]:
    """1, 2, 4 ... up to the limit, and the limit itself.

    Example:
        >>> powers_of_two(6)
        (1, 2, 4, 6)
    """
    return tuple(sorted({*(2**i for i in range(limit.bit_length()) if 2**i <= limit), limit} - {0}))


Measure = Callable[[Tree], float | bool | None]
"""What a tree counts for; None where the metric says nothing of it."""


_REGISTERED: dict[str, tuple[Measure, str, Scale]] = {}


def register_metric(name: str, of: Measure, *, title: str = "", scale: Scale = "value") -> None:
    """Register a metric, the key in `Report.metrics`: the mean over problems of the mean over their trees.

    `of` measures one tree; None where it says nothing of it. The scale is ``"rate"`` for what lies in [0, 1],
    ``"amount"`` for what is never negative, else ``"value"``. A later registration of the name replaces it.

    Example:
        >>> register_metric("answer_length", lambda tree: len(tree.turns[-1].text), scale="amount")
        >>> remove_metric("answer_length")
    """
    if not name.isidentifier() or name in TITLES:
        raise ConfigError(f"a metric's name is a word that the library does not use, not {brief(name)}")
    if not callable(of):
        raise ConfigError(f"the metric {name!r} needs a function of a tree, not {brief(of)}")
    if scale not in ("rate", "amount", "value"):
        raise ConfigError(f"the metric {name!r}: a scale is 'rate', 'amount' or 'value', not {brief(scale)}")
    _REGISTERED[name] = (_guarded(name, of, scale), title or name, scale)


def remove_metric(name: str) -> None:
    """Forget a registered metric, if there is one of the name."""
    _REGISTERED.pop(name, None)


def _guarded(name: str, of: Measure, scale: Scale) -> Measure:
    """A user's measure; a tree that it fails on is left out and logged."""
    least, most = (-math.inf if scale == "value" else 0.0), (1.0 if scale == "rate" else math.inf)

    def guarded(tree: Tree) -> float | None:
        try:
            value = of(tree)
            if value is not None and not (math.isfinite(value) and least <= value <= most):
                raise ValueError(f"{value} does not fit the scale {scale!r}")
            return None if value is None else float(value)
        except Exception as error:  # a user's function may raise anything; the run must not be lost
            log.warning("metric %s left tree %s out: %s", name, tree.id, raised(error))
            return None

    return guarded


class _Sums:
    def __init__(self) -> None:
        self.pairs: dict[str, dict[str, Pair]] = defaultdict(dict)
        self.averaged: set[str] = set()

    def add(self, name: str, problem: str, numerator: float, denominator: float = 1.0) -> None:
        x, w = self.pairs[name].get(problem, (0.0, 0.0))
        self.pairs[name][problem] = (x + numerator, w + denominator)

    def average(self, name: str, problem: str, values: Sequence[float | bool]) -> None:
        """Equal weight for each problem, however many samples it has."""
        if values:
            self.averaged.add(name)
            self.add(name, problem, sum(values) / len(values))


def _title(name: str) -> tuple[str, Scale]:
    if name in TITLES:
        return TITLES[name]
    if name in _REGISTERED:
        return _REGISTERED[name][1:]
    kind, _, agent = name.partition(":")
    if agent:
        title, scale = _NAMED_TITLES[kind]
        return title.replace("{}", one_line(agent, 60)), scale
    who, _, kind = name.partition("_")
    return f"{who.capitalize()} {kind}", "rate"


def _at_k(
    sums: _Sums, who: str, samples: Mapping[str, list[tuple[bool, Hashable | None]]], votes: bool
) -> None:
    """pass@k and maj@k for k = 2, 4 ... up to the number of samples that most problems have."""
    sizes = [len(of_problem) for of_problem in samples.values() if of_problem]
    for k in powers_of_two(int(median(sizes)) if sizes else 0)[1:]:  # avg@n is pass@1
        for problem, of_problem in samples.items():
            if len(of_problem) >= k:
                right, answers = zip(*of_problem, strict=True)
                sums.average(f"{who}_pass@{k}", problem, [pass_at_k(len(right), sum(right), k)])
                if votes:
                    sums.average(f"{who}_maj@{k}", problem, [maj_at_k(answers, right, k)])


def measure(trees: Sequence[Tree], answer_of: AnswerOf | None = None) -> dict[str, Metric]:
    """All metrics of a run, problem by problem, by name; those without data are absent.

    The trees are episodes, grouped rollouts or searches. Without `answer_of` (what a turn votes for) there is
    no maj@k. A `ConfigError` if a tree is there twice or two problems share an id.

    Example:
        >>> from mars_env.types import Action, Grade, Problem, Turn
        >>> turn = Turn("p#0", "0", None, "", "solver_0", "solver", "p", Action("4"), Grade.correct())
        >>> metrics = measure([Tree("p#0", Problem("p", "2 + 2?", "4"), (turn,), final="0")])
        >>> metrics["solver_accuracy"].pairs
        {'p': (1.0, 1.0)}
    """
    sums = _Sums()
    read: AnswerOf = answer_of or (lambda turn: None)
    solvers: dict[str, list[tuple[bool, Hashable | None]]] = {}
    systems: dict[str, list[tuple[bool, Hashable | None]]] = {}
    graded = _graded_later(trees)
    registered = {name: of for name, (of, _, _) in _REGISTERED.items()}
    for problem, group in by_problem(trees).items():
        for name, of in (_OF_A_TREE | registered).items():
            sums.average(name, problem, [value for tree in group if (value := of(tree)) is not None])
        first = [t for tree in group if not is_search(tree) for t in first_attempts(tree)]
        solvers[problem] = [(r, read(t)) for t in first if (r := is_right(t)) is not None]
        sums.average("solver_accuracy", problem, [r for r, _ in solvers[problem]])
        sums.average("solver_tokens", problem, [n for t in first if (n := sampled_tokens(t))])
        systems[problem] = [
            (r, next((read(t) for t in tree.turns if t.id == tree.final), None))
            for tree in group
            if (r := system_right(tree)) is not None
        ]
        for tree in group:
            _roles(sums, problem, tree)
            if is_search(tree) and not tree.fault:
                _nodes(sums, problem, tree)
        _rewards(sums, problem, group, graded)
    _at_k(sums, "solver", solvers, answer_of is not None)
    _at_k(sums, "system", systems, answer_of is not None)
    if all(len(tree.turns) < 2 for tree in trees):
        sums.pairs.pop("gain", None)  # the System is the first attempt
    for name in ("rounds", "judging_tokens"):
        if not any(x for x, _ in sums.pairs[name].values()):
            del sums.pairs[name]  # no agent verifies in this game
    names = [name for name in {**TITLES, **sums.pairs} if sums.pairs[name]]
    metrics = {name: Metric(name, *_title(name), sums.pairs[name], name in sums.averaged) for name in names}
    if {"system_accuracy", "search_pass@n"} <= metrics.keys() and "gain" not in metrics:
        metrics["system_accuracy"] = replace(metrics["system_accuracy"], title="Search Pass@1, chosen node")
    return _named_after(trees, metrics)


def system_bounds(trees: Sequence[Tree]) -> tuple[float, float] | None:
    """The System's accuracy with all unfinished episodes wrong, and with all right; None without any."""
    lost = {tree.id for tree in trees if tree.fault}
    low: list[float] = []
    high: list[float] = []
    for group in by_problem(trees).values():
        right = [r for tree in group if (r := system_right(tree)) is not None]
        missing = sum(tree.id in lost for tree in group)
        if count := len(right) + missing:
            low.append(sum(right) / count)
            high.append((sum(right) + missing) / count)
    return (fmean(low), fmean(high)) if lost else None


def informative(metrics: Mapping[str, Metric]) -> list[str]:
    """Names of the metrics that say something: an amount that is 0 everywhere applies to nothing here."""
    empty = {name for name, m in metrics.items() if not any(x for x, _ in m.pairs.values())}
    return [n for n, m in metrics.items() if m.scale != "amount" or n in _REGISTERED or n not in empty]


def _named_after(trees: Sequence[Tree], metrics: dict[str, Metric]) -> dict[str, Metric]:
    """The metrics, with another role in place of the Solver where another makes the first attempts."""
    roles = {turn.role for tree in trees for turn in first_attempts(tree)}
    if len(roles) != 1 or roles & {"solver", "coder"}:
        return metrics
    role = one_line(roles.pop().capitalize(), 60)
    return {name: replace(m, title=m.title.replace("Solver", role)) for name, m in metrics.items()}


def _graded_later(trees: Sequence[Tree]) -> set[str]:
    """Roles whose turns are graded elsewhere than at the root, searches apart."""
    turns = (turn for tree in trees if not is_search(tree) for turn in tree.turns)
    return {turn.role for turn in turns if turn.parent_id is not None and turn.grade is not None}


def _rewards(sums: _Sums, problem: str, trees: Sequence[Tree], graded: Collection[str]) -> None:
    by_role: defaultdict[str, list[Turn]] = defaultdict(list)
    for tree in trees:
        for turn in tree.turns:
            by_role[turn.role].append(turn)
    for role, turns in by_role.items():
        sums.average(f"reward:{role}", problem, [turn.reward for turn in turns if turn.reward is not None])
    for role, turns in by_role.items():
        if role in graded:
            sums.average(f"accuracy:{role}", problem, known_verdicts(turns))


def _nodes(sums: _Sums, problem: str, tree: Tree) -> None:
    if right := known_verdicts(tree.turns):
        sums.add("node_accuracy", problem, sum(right), len(right))
    answers = [turn.agent for turn in tree.turns if turn.id == tree.final]
    for agent in sorted({turn.agent for turn in tree.turns}):
        nodes = [turn for turn in tree.turns if turn.agent == agent]
        sums.add(f"share:{agent}", problem, len(nodes), len(tree.turns))
        if right := known_verdicts(nodes):
            sums.add(f"right:{agent}", problem, sum(right), len(right))
        if answers:
            sums.add(f"answers:{agent}", problem, agent in answers)


def _gain(tree: Tree) -> float | None:
    attempts, right = first_verdicts(tree), system_right(tree)
    if right is None or not attempts or is_search(tree):
        return None
    return right - sum(attempts) / len(attempts)


def _finished(of: Measure) -> Measure:
    return lambda tree: None if tree.fault else of(tree)


def _of_a_search(of: Measure) -> Measure:
    return lambda tree: None if tree.fault or not is_search(tree) else of(tree)


_OF_A_TREE: dict[str, Measure] = {
    "system_accuracy": system_right,
    "gain": _gain,
    "search_pass@n": _of_a_search(any_right),
    "nodes": _of_a_search(lambda tree: len(tree.turns)),
    "depth": _of_a_search(depth),
    "rounds": _finished(rounds),
    "calls": _finished(lambda tree: sum(len(turn.action.completions) for turn in tree.turns)),
    "tokens": _finished(lambda tree: sum(map(sampled_tokens, tree.turns)) + judging_tokens(tree) or None),
    "judging_tokens": _finished(judging_tokens),
    "prompt_tokens": _finished(lambda tree: sum(map(prompt_tokens, tree.turns)) or None),
}
"""What one tree counts for; 0 tokens mean that no server counted them. The metric is the mean over problems
of the mean over their trees, as it is of metrics that `register_metric` adds."""


def _roles(sums: _Sums, problem: str, tree: Tree) -> None:
    for turn, accepts, right in judgements(tree):
        sums.add("malformed", problem, bool(turn.info.get("malformed")))
        if right is not None:
            sums.add("verifier_accuracy", problem, accepts == right)
            sums.add("acceptance_precision" if accepts else "verifier_precision", problem, accepts == right)
            sums.add("acceptance_recall" if right else "verifier_recall", problem, accepts == right)
    by_id = {turn.id: turn for turn in tree.turns}
    corrections = [turn for turn in tree.turns if turn.role == "corrector" and "verdict" not in turn.info]
    for turn in corrections:
        before, after = is_right(judged_turn(turn, by_id)), is_right(turn)
        if before is not None and after is not None:
            sums.add("break_rate" if before else "fix_rate", problem, after != before)


def estimates(metrics: Mapping[str, Metric], problems: Sequence[str]) -> dict[str, Estimate]:
    """Values with 95% intervals, all from the same resamples of `problems`: the ids of all of the run."""
    by_name: dict[str, Estimate] = {}
    for scale in ("rate", "difference", "amount", "value"):
        chosen = [m for m in metrics.values() if m.scale == scale]
        if not chosen:
            continue
        pairs = np.array([[m.pairs.get(p, (0.0, 0.0)) for m in chosen] for p in problems], dtype=np.float64)
        pairs = pairs.reshape(len(problems), len(chosen), 2)
        columns = zip(*intervals(pairs[..., 0], pairs[..., 1], scale), strict=True)
        for m, column in zip(chosen, columns, strict=True):
            value, low, high = map(optional, column)
            problems_with_data = sum(w > 0 for _, w in m.pairs.values())
            by_name[m.name] = Estimate(value, low, high, problems_with_data, m.scale)
    return {name: by_name[name] for name in metrics}
