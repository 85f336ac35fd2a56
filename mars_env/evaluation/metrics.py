"""What a run's trees say: accuracies, precision and recall, fixes and breaks, cost; and what to count.

Every metric is a pair of numbers a problem, a numerator and a denominator, and its value is the
ratio of their sums (`statistics.ratio`); so one code gives every interval, and every comparison
of two runs. Definitions, over trees (playings of a problem) and their turns:

* **Solver**: first attempts, that is the graded root turns. avg@n is the mean over problems of the
  share that is right; pass@k and maj@k likewise, from all first attempts at the problem.
* **System**: the turn that the rules chose as the team's answer. An episode that ended without an
  answer is wrong; one that could not be finished (a fault) is left out and counted.
* **Gain**: System minus Solver, over the trees where both are known, paired by tree.
* **Verifier**: each verification judges the nearest graded turn above it. *Error detection* takes
  "says Wrong" as the positive: precision is the share of rejected solutions that are wrong, recall
  the share of wrong solutions that are rejected. *Acceptance* takes "says Correct" as the positive.
  A malformed verdict counts as Wrong, as the rules read it, and is counted.
* **Corrector**: its input is the nearest graded turn above it. The fix rate is the share of wrong
  inputs that it makes right, the break rate the share of right inputs that it makes wrong.
* **Search**: Pass@1 is the System, that is, the node that the search chose without seeing grades;
  Pass@N whether any node is right. The nodes' accuracy and each agent's share of nodes and of final
  answers stand beside them. A search has no first attempts: which problems get several is its choice.
* **Cost**: verifications, model calls and tokens of one playing of a problem. Tokens are those that
  were sampled, by agents or by models that judged for a search; prompt tokens are shown beside them.

A grade UNKNOWN is left out of every rate and counted by its reason.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from mars_env.envs.rewards import REWARD_FAULT
from mars_env.errors import ConfigError
from mars_env.evaluation import searches
from mars_env.evaluation.statistics import Estimate, Scale, intervals, maj_at_k, pass_at_k
from mars_env.types import Tree, Turn, Verdict

AnswerOf = Callable[[Turn], Hashable | None]
"""What a turn votes for in a majority vote; None where it holds no answer."""

Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure, problem by problem.

    Attributes:
        name: Its key in reports, e.g. ``"solver_accuracy"``.
        title: What a reader sees.
        scale: Rate, difference or amount.
        pairs: Numerator and denominator by problem id; problems that say nothing are absent.
    """

    name: str
    title: str
    scale: Scale
    pairs: Mapping[str, Pair]


@dataclass(frozen=True, slots=True)
class Counts:
    """What a run's figures rest on, and what was left out of them.

    Attributes:
        problems: Problems played.
        episodes: Trees.
        faults: Trees that could not be finished, by reason.
        turns: Turns by role.
        truncated: Turns cut off by their own length limit, by role.
        interrupted: Turns that the set-up cut off (context, content filter), by role: their grade is UNKNOWN.
        unknown: Turns with an UNKNOWN grade, by reason.
        reward_faults: Turns whose reward function failed, by role and reason.
        malformed: Verifications whose verdict could not be read.
        false_accepts: Wrong solutions that a Verifier called Correct.
        false_rejects: Right solutions that a Verifier called Wrong.
        calls: Completions sampled.
        prompt_tokens: Tokens read by models.
        completion_tokens: Tokens sampled.
    """

    problems: int = 0
    episodes: int = 0
    faults: Mapping[str, int] = field(default_factory=dict)
    turns: Mapping[str, int] = field(default_factory=dict)
    truncated: Mapping[str, int] = field(default_factory=dict)
    interrupted: Mapping[str, int] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)
    reward_faults: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    malformed: int = 0
    false_accepts: int = 0
    false_rejects: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


def is_right(turn: Turn) -> bool | None:
    """Whether a turn was judged correct; None where it was not judged or the grade is UNKNOWN.

    Example:
        >>> from mars_env.types import Action, Grade
        >>> is_right(Turn("p#0", "0", None, "", "solver_0", "", "p", Action("4"), Grade.correct()))
        True
    """
    if turn.grade is None or turn.grade.verdict is Verdict.UNKNOWN:
        return None
    return turn.grade.verdict is Verdict.CORRECT


def sampled_tokens(turn: Turn) -> int:
    """Tokens sampled in a turn, over all its completions.

    Example:
        >>> from mars_env.types import Action, Completion
        >>> action = Action("4", (Completion("4", completion_tokens=3),))
        >>> sampled_tokens(Turn("p#0", "0", None, "", "solver_0", "", "p", action))
        3
    """
    return sum(c.completion_tokens or len(c.token_ids) for c in turn.action.completions)


def prompt_tokens(turn: Turn) -> int:
    """Tokens that models read in a turn, over all its completions."""
    return sum(c.prompt_tokens or len(c.prompt_ids) for c in turn.action.completions)


def judged_turn(turn: Turn, by_id: Mapping[str, Turn]) -> Turn | None:
    """The nearest turn above that carries a grade: what a Verifier judges and a Corrector corrects.

    Args:
        turn: A turn of a tree.
        by_id: The tree's turns by id.
    """
    parent = turn.parent_id
    while parent is not None:
        above = by_id[parent]
        if above.grade is not None:
            return above
        parent = above.parent_id
    return None


def first_attempts(tree: Tree) -> list[Turn]:
    """The graded root turns: one in an episode, a group's worth in a grouped rollout."""
    return [t for t in tree.turns if t.parent_id is None and t.grade is not None]


def system_right(tree: Tree) -> bool | None:
    """Whether the team's answer is right; None where that is not known (a fault, an UNKNOWN grade).

    A finished episode without an answer is wrong, unless something in it is UNKNOWN: then it might have had
    one. A rollout that branches and names no answer has no System.
    """
    if tree.fault:
        return None
    if tree.final is None:
        if any(_is_unknown(turn) for turn in tree.turns):
            return None
        parents = [t.parent_id for t in tree.turns]
        return False if len(set(parents)) == len(parents) else None
    return next((is_right(t) for t in tree.turns if t.id == tree.final), None)


def _is_unknown(turn: Turn) -> bool:
    """Whether a fault has hidden what the turn, or a search of it, was worth."""
    grade = turn.grade is not None and turn.grade.verdict is Verdict.UNKNOWN
    return grade or bool(turn.action.interrupted) or bool(turn.info.get("search_unknown"))


def by_problem(trees: Sequence[Tree]) -> dict[str, list[Tree]]:
    """The trees of each problem, problems in the order of their first tree.

    Raises:
        ConfigError: If a tree is there twice, or one problem id stands for two problems.
    """
    groups: dict[str, list[Tree]] = {}
    seen: set[str] = set()
    for tree in trees:
        if tree.id in seen:
            raise ConfigError(f"the tree {tree.id!r} is there twice; pass each tree of a run once")
        seen.add(tree.id)
        group = groups.setdefault(tree.problem.id, [])
        if group and group[0].problem.statement != tree.problem.statement:
            raise ConfigError(
                f"the problem id {tree.problem.id!r} stands for two different statements; "
                "evaluate the two problem sets apart"
            )
        group.append(tree)
    return groups


def answers_of_grading() -> AnswerOf:
    r"""What a turn votes for: the final answer as the library's own grader reads it.

    Integers vote as numbers (``025`` and ``25`` are one vote), other answers as texts without
    white space.

    Example:
        >>> from mars_env.types import Action
        >>> answer_of = answers_of_grading()
        >>> answer_of(Turn("p#0", "0", None, "", "solver_0", "", "p", Action(r"So it is \boxed{025}.")))
        25
    """
    # Here, because comparing two runs or showing a report needs no parser.
    from mars_env.grading.math.extract import extract_answer
    from mars_env.grading.math.integers import read_integer

    def answer_of(turn: Turn) -> Hashable | None:
        answer = extract_answer(turn.text).answer
        if answer is None:
            return None
        number = read_integer(answer)
        return "".join(answer.split()) or None if number is None else number

    return answer_of


def vote_samples(turns: Sequence[Turn], answer_of: AnswerOf) -> tuple[list[Hashable | None], list[bool]]:
    """Votes and judgements of the turns whose grade is known."""
    known = [(answer_of(t), right) for t in turns if (right := is_right(t)) is not None]
    return [a for a, _ in known], [r for _, r in known]


def powers_of_two(limit: int) -> tuple[int, ...]:
    """1, 2, 4 ... up to the limit, and the limit itself.

    Example:
        >>> powers_of_two(6)
        (1, 2, 4, 6)
    """
    return tuple(sorted({*(2**i for i in range(limit.bit_length()) if 2**i <= limit), limit} - {0}))


class _Sums:
    """Numerators and denominators by metric and problem, in the order of first use."""

    def __init__(self) -> None:
        self.heads: dict[str, tuple[str, Scale]] = {}
        self.pairs: dict[str, dict[str, Pair]] = defaultdict(dict)

    def add(self, name: str, problem: str, numerator: float, denominator: float = 1.0) -> None:
        x, w = self.pairs[name].get(problem, (0.0, 0.0))
        self.pairs[name][problem] = (x + numerator, w + denominator)

    def average(self, name: str, problem: str, values: Sequence[float | bool]) -> None:
        """One vote a problem, however many samples it has."""
        if values:
            self.add(name, problem, sum(values) / len(values))


_TITLES: dict[str, tuple[str, Scale]] = {
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

_AGENT_TITLES = {
    "share": "Share of nodes, {}",
    "right": "Nodes right, {}",
    "answers": "Share of final answers, {}",
}


def _title(name: str) -> tuple[str, Scale]:
    if name in _TITLES:
        return _TITLES[name]
    kind, mark, agent = name.partition(":")
    if mark:
        return _AGENT_TITLES[kind].replace("{}", agent), "rate"
    who, _, kind = name.partition("_")
    return f"{who.capitalize()} {kind}", "rate"


def _at_k(
    sums: _Sums, who: str, samples: Mapping[str, list[tuple[bool, Hashable | None]]], votes: bool
) -> None:
    """pass@k and maj@k for k = 2, 4 ... up to the number of samples that most problems have.

    A problem with fewer samples than k (some were UNKNOWN) is left out of that k.
    """
    sizes = [len(of_problem) for of_problem in samples.values() if of_problem]
    for k in powers_of_two(int(median(sizes)) if sizes else 0):
        if k == 1:  # avg@n says it
            continue
        for problem, of_problem in samples.items():
            if len(of_problem) < k:
                continue
            right = [r for r, _ in of_problem]
            sums.add(f"{who}_pass@{k}", problem, pass_at_k(len(right), sum(right), k))
            if votes:
                sums.add(f"{who}_maj@{k}", problem, maj_at_k([a for _, a in of_problem], right, k))


def measure(trees: Sequence[Tree], answer_of: AnswerOf | None = None) -> dict[str, Metric]:
    """All metrics of a run, problem by problem, by name.

    Metrics that a run says nothing about (a Corrector's where none acted) are absent.

    Args:
        trees: Episodes, grouped rollouts or searches; several a problem.
        answer_of: What a turn votes for; without it there is no maj@k.

    Raises:
        ConfigError: If a tree is there twice or two problems share an id.

    Example:
        >>> from mars_env.types import Action, Grade, Problem
        >>> turn = Turn("p#0", "0", None, "", "solver_0", "solver", "p", Action("4"), Grade.correct())
        >>> metrics = measure([Tree("p#0", Problem("p", "2 + 2?", "4"), (turn,), final="0")])
        >>> metrics["solver_accuracy"].pairs
        {'p': (1.0, 1.0)}
    """
    sums = _Sums()
    read: AnswerOf = answer_of or (lambda turn: None)
    solvers: dict[str, list[tuple[bool, Hashable | None]]] = {}
    systems: dict[str, list[tuple[bool, Hashable | None]]] = {}
    for problem, group in by_problem(trees).items():
        first = [t for tree in group if not searches.is_search(tree) for t in first_attempts(tree)]
        solvers[problem] = [(r, read(t)) for t in first if (r := is_right(t)) is not None]
        sums.average("solver_accuracy", problem, [r for r, _ in solvers[problem]])
        system = [(tree, r) for tree in group if (r := system_right(tree)) is not None]
        answers = [next((read(t) for t in x.turns if t.id == x.final), None) for x, _ in system]
        systems[problem] = [(r, a) for (_, r), a in zip(system, answers, strict=True)]
        sums.average("system_accuracy", problem, [r for _, r in system])
        gains = []
        for tree, right in system:
            attempts = [r for t in first_attempts(tree) if (r := is_right(t)) is not None]
            if attempts and not searches.is_search(tree):
                gains.append(right - sum(attempts) / len(attempts))
        sums.average("gain", problem, gains)
        for tree in group:
            _roles(sums, problem, tree)
        finished = [tree for tree in group if not tree.fault]
        sums.average("rounds", problem, [rounds(tree) for tree in finished])
        sums.average("calls", problem, [sum(len(t.action.completions) for t in x.turns) for x in finished])
        sums.average("solver_tokens", problem, [sampled_tokens(t) for t in first])
        judging = [searches.judging_tokens(tree) for tree in finished]
        sampled = [sum(map(sampled_tokens, tree.turns)) for tree in finished]
        sums.average("tokens", problem, [a + b for a, b in zip(sampled, judging, strict=True)])
        sums.average("judging_tokens", problem, judging)
        _searches(sums, problem, [tree for tree in finished if searches.is_search(tree)])
        sums.average("prompt_tokens", problem, [sum(map(prompt_tokens, x.turns)) for x in finished])
    _at_k(sums, "solver", solvers, answer_of is not None)
    _at_k(sums, "system", systems, answer_of is not None)
    order = [*_TITLES, *(name for name in sums.pairs if name not in _TITLES)]
    for name in ("rounds", "judging_tokens"):
        if not any(x for x, _ in sums.pairs[name].values()):
            order.remove(name)  # nobody verifies in this game
    metrics = {name: Metric(name, *_title(name), sums.pairs[name]) for name in order if sums.pairs[name]}
    if "system_accuracy" in metrics and "search_pass@n" in metrics and not metrics.keys() & {"gain"}:
        metrics["system_accuracy"] = replace(metrics["system_accuracy"], title="Search Pass@1, chosen node")
    return metrics


def _searches(sums: _Sums, problem: str, trees: Sequence[Tree]) -> None:
    """What is special about the searches of one problem."""
    sums.average(
        "search_pass@n", problem, [r for tree in trees if (r := searches.any_right(tree)) is not None]
    )
    sums.average("nodes", problem, [len(tree.turns) for tree in trees])
    sums.average("depth", problem, [searches.depth(tree) for tree in trees])
    for tree in trees:
        if right := searches.known(tree.turns):
            sums.add("node_accuracy", problem, sum(right), len(right))
        answers = [turn.agent for turn in tree.turns if turn.id == tree.final]
        for agent in searches.agents(tree):
            own = [turn for turn in tree.turns if turn.agent == agent]
            sums.add(f"share:{agent}", problem, len(own), len(tree.turns))
            if right := searches.known(own):
                sums.add(f"right:{agent}", problem, sum(right), len(right))
            if answers:
                sums.add(f"answers:{agent}", problem, agent in answers)


def _roles(sums: _Sums, problem: str, tree: Tree) -> None:
    """The Verifier's and the Corrector's turns of one tree."""
    by_id = {t.id: t for t in tree.turns}
    for turn in tree.turns:
        if turn.action.interrupted:  # not what the agent would have said
            continue
        if "verdict" in turn.info:
            sums.add("malformed", problem, bool(turn.info.get("malformed")))
        judged = judged_turn(turn, by_id)
        before = None if judged is None else is_right(judged)
        if before is None:
            continue
        if "verdict" in turn.info:
            accepts = turn.info["verdict"] == "Correct"
            sums.add("verifier_accuracy", problem, accepts == before)
            sums.add("acceptance_precision" if accepts else "verifier_precision", problem, accepts == before)
            sums.add("acceptance_recall" if before else "verifier_recall", problem, accepts == before)
        elif turn.role == "corrector" and (after := is_right(turn)) is not None:
            sums.add("break_rate" if before else "fix_rate", problem, after != before)


def rounds(tree: Tree) -> int:
    """Verifications in an episode; in a tree that branches, the most on one path."""
    depth: dict[str | None, int] = {None: 0}
    by_id = {t.id: t for t in tree.turns}
    for turn in tree.turns:
        path = []
        above: Turn | None = turn
        while above is not None and above.id not in depth:
            path.append(above)
            above = by_id[above.parent_id] if above.parent_id is not None else None
        for step in reversed(path):
            depth[step.id] = depth[step.parent_id] + ("verdict" in step.info)
    return max(depth.values())


def estimates(metrics: Mapping[str, Metric], problems: Sequence[str]) -> dict[str, Estimate]:
    """Values with 95% intervals, all from the same resamples of the problems.

    Args:
        metrics: From `measure`.
        problems: Ids of all problems of the run, also of those that a metric says nothing about.
    """
    found: dict[str, Estimate] = {}
    for scale in ("rate", "difference", "amount"):
        chosen = [m for m in metrics.values() if m.scale == scale]
        if not chosen:
            continue
        pairs = np.array([[m.pairs.get(p, (0.0, 0.0)) for m in chosen] for p in problems], dtype=np.float64)
        pairs = pairs.reshape(len(problems), len(chosen), 2)
        columns = zip(*intervals(pairs[..., 0], pairs[..., 1], scale), strict=True)
        for m, column in zip(chosen, columns, strict=True):
            value, low, high = (None if np.isnan(x) else float(x) for x in column)
            known = sum(w > 0 for _, w in m.pairs.values())
            found[m.name] = Estimate(value, low, high, known, m.scale)
    return {name: found[name] for name in metrics}


def count(trees: Sequence[Tree]) -> Counts:
    """What a run holds and what its rates leave out.

    Example:
        >>> count([]).episodes
        0
    """
    turns: Counter[str] = Counter()
    truncated: Counter[str] = Counter()
    interrupted: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    rewardless: defaultdict[str, Counter[str]] = defaultdict(Counter)
    malformed = accepts = rejects = 0
    for tree in trees:
        by_id = {t.id: t for t in tree.turns}
        for turn in tree.turns:
            turns[turn.role] += 1
            cut = bool(turn.action.interrupted)
            interrupted[turn.role] += cut
            truncated[turn.role] += turn.action.truncated and not cut
            if turn.grade is not None and turn.grade.verdict is Verdict.UNKNOWN:
                unknown[turn.grade.reason or "no reason was given"] += 1
            if why := turn.info.get(REWARD_FAULT):
                rewardless[turn.role][str(why)] += 1
            if why := turn.info.get("search_unknown"):
                unknown[f"search score: {why}"] += 1
            if "verdict" in turn.info and not cut:
                malformed += bool(turn.info.get("malformed"))
                judged = judged_turn(turn, by_id)
                right = None if judged is None else is_right(judged)
                accepts += right is False and turn.info["verdict"] == "Correct"
                rejects += right is True and turn.info["verdict"] != "Correct"
    everything = [t for tree in trees for t in tree.turns]
    return Counts(
        problems=len({tree.problem.id for tree in trees}),
        episodes=len(trees),
        faults=dict(Counter(tree.fault for tree in trees if tree.fault)),
        turns=dict(turns),
        truncated={role: n for role, n in truncated.items() if n},
        interrupted={role: n for role, n in interrupted.items() if n},
        unknown=dict(unknown),
        reward_faults={role: dict(reasons) for role, reasons in rewardless.items()},
        malformed=malformed,
        false_accepts=accepts,
        false_rejects=rejects,
        calls=sum(len(t.action.completions) for t in everything),
        prompt_tokens=sum(map(prompt_tokens, everything)),
        completion_tokens=sum(map(sampled_tokens, everything)) + sum(map(searches.judging_tokens, trees)),
    )
