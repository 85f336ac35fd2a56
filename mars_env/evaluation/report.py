"""The report of a run: every metric with its interval, what it rests on, and equal-token baselines."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, Field

from mars_env.evaluation.baselines import Baseline
from mars_env.evaluation.costs import Prices, cost, money, policies
from mars_env.evaluation.counts import Counts, count_trees
from mars_env.evaluation.metrics import estimates, informative, measure, system_bounds
from mars_env.evaluation.statistics import Estimate
from mars_env.evaluation.tables import Table, Tabled, interval, number_text, with_interval
from mars_env.evaluation.trees import AnswerOf, by_problem
from mars_env.text import counted, one_line
from mars_env.types import Tree

REPORT = "report.json"
"""The file of a stored run that holds its report."""

SHOWN_REASONS = 5
MANY_MALFORMED = 0.1
"""Share of malformed verdicts from which on a note names them."""


class MetricEstimate(BaseModel, frozen=True, extra="forbid"):
    """One row of a report."""

    title: str
    estimate: Estimate


class RunDescription(BaseModel, frozen=True, extra="forbid"):
    """What a report says of a run that its trees do not, with the commit and libraries that made it.

    Example:
        >>> RunDescription(title="t", problem_set="aime", generated=True).set_name
        'aime (generated, AIME-style)'
    """

    title: str
    problem_set: str
    generated: bool
    seed: int | None = None
    rewards: dict[str, str] = Field(default_factory=dict)
    commit: str | None = None
    versions: dict[str, str] = Field(default_factory=dict)

    @property
    def set_name(self) -> str:
        """The problem set's name; for generated problems it says so."""
        style = ", AIME-style" if self.problem_set == "aime" else ""
        return f"{self.problem_set} (generated{style})" if self.generated else self.problem_set


class Report(Tabled, RunDescription, frozen=True):
    """What `mars_env.evaluate` found, as a value that is stored, read back and rendered.

    Attributes:
        samples: Fewest and most episodes of a problem.
        metrics: By name, in the order of display.
        bounds: The System's accuracy with all episodes that were not finished wrong, and with all right; None
            where all were finished.
        agents: The model or policy of each agent, as its turns name it.
        cost: Of the run's tokens, baselines apart; None without prices.
    """

    samples: tuple[int, int]
    metrics: dict[str, MetricEstimate]
    counts: Counts
    bounds: tuple[float, float] | None = None
    baselines: tuple[Baseline, ...] = ()
    notes: tuple[str, ...] = ()
    agents: dict[str, str] = Field(default_factory=dict)
    cost: float | None = None

    @property
    def headline(self) -> str:
        """One line: set, problems, samples and seed, episodes that were lost, and the main metrics."""
        low, high = self.samples
        samples = f"{'' if low == high else f'{low} to '}{counted(high, 'sample')}"
        seed = "" if self.seed is None else f", seed {self.seed}"
        phrases = [f"{self.set_name}: {counted(self.counts.problems, 'problem')} x {samples}{seed}"]
        if lost := len(self.counts.lost):
            episodes = self.counts.episodes
            phrases.append(f"{episodes - lost} of {episodes} episodes finished")
        for name, words in _HEADLINE.items():
            if name in self.metrics and (estimate := self.metrics[name].estimate).value is not None:
                phrases.append(f"{words} {with_interval(estimate)}")
                if name == "system_accuracy" and self.bounds is not None:
                    wrong, right = (number_text(bound, "rate") for bound in self.bounds)
                    phrases[-1] += f" ({wrong} to {right} with the others counted wrong or right)"
        if "tokens" in self.metrics:
            tokens = self.metrics["tokens"].estimate
            phrases.append(f"{number_text(tokens.value, 'amount')} tokens an episode")
        return "; ".join(phrases)

    def heading(self) -> tuple[str, ...]:
        """The title and the headline."""
        return self.title, self.headline

    def tables(self) -> list[Table]:
        """Metrics, baselines, counts, and what the report was made with; those that have rows.

        Example:
            >>> about = RunDescription(title="nothing", problem_set="none", generated=False)
            >>> [table.title for table in build_report([], about).tables()]
            ['', 'Counts']
        """
        rows = ((one_line(metric.title, 100), metric.estimate) for metric in self.metrics.values())
        metrics = Table(
            _METRIC_COLUMNS,
            tuple((what, number_text(e.value, e.scale), interval(e), str(e.problems)) for what, e in rows),
            caption=f"{self.title}, {self.headline}. Intervals are 95%, the problem is the unit.",
        )
        equal = f"{self.title}: equal-token baselines."
        others = [
            Table(_BASELINE_COLUMNS, self._baseline_rows(), "Baselines", caption=equal),
            Table(("Counts", ""), count_rows(self.counts), "Counts", align="left"),
            Table(("Made with", ""), self._origin_rows(), "Made with", align="left"),
        ]
        return [metrics, *(table for table in others if table.rows)]

    def remarks(self) -> tuple[str, ...]:
        """The notes."""
        return self.notes

    def _baseline_rows(self) -> tuple[tuple[str, ...], ...]:
        if not self.baselines or not {"system_accuracy", "tokens"} <= self.metrics.keys():
            return ()
        system, tokens = (self.metrics[name].estimate for name in ("system_accuracy", "tokens"))
        rows = [("System", "", with_interval(system), number_text(tokens.value, "amount"), "")]
        for b in self.baselines:
            spent = number_text(b.tokens, "amount")
            ours, minus = with_interval(b.accuracy), with_interval(b.system_minus)
            rows.append((one_line(b.name), one_line(b.detail), ours, spent, minus))
        return tuple(rows)

    def _origin_rows(self) -> tuple[tuple[str, ...], ...]:
        who = ", ".join(f"{agent}: {policy}" for agent, policy in self.agents.items())
        if len(policies := {*self.agents.values()}) == 1:
            who = f"{policies.pop()} ({', '.join(self.agents)})"
        apart = ", baselines apart" if self.baselines else ""
        rows = {
            "Agents": who,
            "Own rewards": ", ".join(f"{role}: {name}" for role, name in self.rewards.items()),
            "Commit": self.commit or "",
            "Versions": ", ".join(f"{name} {number}" for name, number in self.versions.items()),
            "Cost": "" if self.cost is None else f"${money(self.cost)}{apart}",
        }
        return tuple((what, one_line(which, 300)) for what, which in rows.items() if which)


_METRIC_COLUMNS = ("", "Value", "95% interval", "Problems")
_BASELINE_COLUMNS = ("At the System's tokens", "Size", "Accuracy", "Tokens a problem", "System minus it")

_HEADLINE = {"system_accuracy": "System", "solver_accuracy": "first attempt", "gain": "difference"}


def build_report(
    trees: Sequence[Tree],
    about: RunDescription,
    *,
    answer_of: AnswerOf | None = None,
    baselines: Sequence[Baseline] = (),
    notes: Sequence[str] = (),
    prices: Prices | None = None,
) -> Report:
    """The report of a run's trees; without `answer_of` (what a turn votes for) there is no maj@k."""
    groups = by_problem(trees)
    metrics = measure(trees, answer_of)
    values = estimates(metrics, list(groups))
    sizes = [len(group) for group in groups.values()] or [0]
    counts = count_trees(trees)
    return Report(
        **dict(about),
        samples=(min(sizes), max(sizes)),
        metrics={
            name: MetricEstimate(title=metrics[name].title, estimate=values[name])
            for name in informative(metrics)
        },
        counts=counts,
        bounds=system_bounds(trees),
        baselines=tuple(baselines),
        notes=(*notes, *derived_notes(counts, baselines)),
        agents=policies(trees),
        cost=None if prices is None else cost(trees, prices),
    )


def derived_notes(counts: Counts, baselines: Sequence[Baseline]) -> tuple[str, ...]:
    """What counts and baselines say in notes: what was left out, and why."""
    ids = ", ".join(one_line(id, 60) for id in counts.lost[:SHOWN_REASONS])
    more = ", ..." if len(counts.lost) > SHOWN_REASONS else ""
    lost = f"{len(counts.lost)} of {counts.episodes} ({ids}{more})"
    interrupted = _by_role(counts.interrupted, counts.turns)
    reasons_by_kind = {
        f"Episodes not finished, left out of the System: {lost}": _reasons(counts.faults),
        "Grades UNKNOWN, left out of every rate": _reasons(counts.unknown),
        "Turns ended by context, filter or a fault, UNKNOWN and left out": interrupted,
    }
    notes = [f"{what}: {which}" for what, which in reasons_by_kind.items() if which]
    for role, reasons in sorted(counts.reward_faults.items()):
        notes.append(f"Rewards missing because the reward failed, {one_line(role)}: {_reasons(reasons)}")
    if counts.malformed > MANY_MALFORMED * counts.verdicts:
        malformed = f"{counts.malformed:,} of {counts.verdicts:,}"
        lines = "'Correctness: Correct' or 'Correctness: Wrong'"
        notes.append(f"Verdicts malformed, counted as Wrong: {malformed}. A report ends with a line {lines}")
    less = "it spent fewer tokens than the System"
    notes += [f"{b.name}: {less} ({b.tokens:.0f} per problem)" for b in baselines if b.short]
    return tuple(notes)


def _reasons(reasons: Mapping[str, int]) -> str:
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    texts = [f"{n} x {one_line(reason, 200)}" for reason, n in ranked[:SHOWN_REASONS]]
    if len(ranked) > SHOWN_REASONS:
        texts.append(f"{len(ranked) - SHOWN_REASONS} more reasons")
    return "; ".join(texts)


def count_rows(counts: Counts) -> tuple[tuple[str, str], ...]:
    """The counts of a run as (what, how many); what does not apply to the run is left out."""
    turns = ", ".join(f"{one_line(role)} {n:,}" for role, n in counts.turns.items())
    failed = {role: sum(reasons.values()) for role, reasons in counts.reward_faults.items()}
    rows = [
        ("Episodes", f"{counts.episodes:,}"),
        ("Episodes not finished", f"{sum(counts.faults.values()):,}"),
        ("Turns", f"{sum(counts.turns.values()):,} ({turns})" if turns else "0"),
        ("Turns cut off by their own limit", _by_role(counts.truncated, counts.turns) or "0"),
        ("Turns ended by context, filter or a fault", _by_role(counts.interrupted, counts.turns)),
        ("Grades UNKNOWN", f"{sum(counts.unknown.values()):,}"),
        ("Rewards that failed", _by_role(failed, counts.turns)),
    ]
    if counts.verdicts:
        rows += [
            ("Verdicts malformed", f"{counts.malformed:,} of {counts.verdicts:,}"),
            ("Wrong solutions accepted", f"{counts.false_accepts:,}"),
            ("Right solutions rejected", f"{counts.false_rejects:,}"),
        ]
    tokens = {"Tokens sampled": counts.completion_tokens, "Tokens read": counts.prompt_tokens}
    rows += [(what, f"{n:,}") for what, n in {"Model calls": counts.calls, **tokens}.items() if n]
    if counts.tool_calls:
        rows.append(("Calls of tools", f"{counts.tool_calls:,} in {counts.tool_seconds:,.3g} s"))
    return tuple((what, how_many) for what, how_many in rows if how_many)


def _by_role(numbers: Mapping[str, int], turns: Mapping[str, int]) -> str:
    ranked = sorted(numbers.items())
    return ", ".join(f"{one_line(role)} {n:,} of {turns.get(role, 0):,}" for role, n in ranked)
