"""The report of a run: every figure with its interval, what it rests on, and equal-token baselines."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from html import escape

from pydantic import BaseModel, ConfigDict
from rich.console import Console, Group
from rich.text import Text

from mars_env.evaluation.baselines import Baseline
from mars_env.evaluation.costs import Prices, cost, money, policies
from mars_env.evaluation.counts import Counts, count
from mars_env.evaluation.metrics import estimates, measure, telling
from mars_env.evaluation.provenance import Provenance
from mars_env.evaluation.statistics import Estimate
from mars_env.evaluation.tables import ConsoleTable, html_table, latex_table, table
from mars_env.evaluation.trees import AnswerOf, by_problem
from mars_env.text import counted, one_line
from mars_env.types import Tree

REPORT = "report.json"
"""The file of a stored run that holds its report."""

SHOWN_REASONS = 5

_MARKUP = re.compile(r"[\\`*~|\[$]|(?<!\w)_|_(?!\w)|:(?=//)|(?<=www)\.|^(?=[#>])", re.IGNORECASE)


class Figure(BaseModel):
    """One row of a report: a metric's title and its estimate."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    estimate: Estimate


class Report(BaseModel):
    """What `mars_env.evaluate` found, as a value that is stored, read back and rendered.

    Attributes:
        title: What was played, e.g. ``"aime-solve-verify-correct"``.
        problem_set: Name of the problem set.
        generated: Whether its problems were generated rather than collected; shown wherever
            the name is shown, so that nobody mistakes them for the contest.
        style: What generated problems imitate, e.g. ``"AIME-style"``.
        samples: Fewest and most playings of a problem.
        seed: The run's seed.
        figures: By metric name, in the order of display.
        counts: What the figures rest on.
        baselines: What a single agent reaches with the System's tokens.
        notes: Sentences that a reader must know, for example what was left out.
        agents: Who played: the model or policy of each agent, as its turns name it.
        rewards: The reward functions that replaced those of the rules, by role.
        commit: Of the code that played; None outside of a git checkout.
        versions: Of the libraries that decide the figures.
        cost: Of the run's tokens, baselines apart, in the currency of the prices; None without prices.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    problem_set: str
    generated: bool
    style: str = ""
    samples: tuple[int, int]
    seed: int | None = None
    figures: dict[str, Figure]
    counts: Counts
    baselines: tuple[Baseline, ...] = ()
    notes: tuple[str, ...] = ()
    agents: dict[str, str] = {}
    rewards: dict[str, str] = {}
    commit: str | None = None
    versions: dict[str, str] = {}
    cost: float | None = None

    @property
    def set_name(self) -> str:
        """The problem set's name; for generated problems it says so."""
        kind = ", ".join(filter(None, ("generated", self.style))) if self.generated else ""
        return f"{self.problem_set} ({kind})" if kind else self.problem_set

    @property
    def headline(self) -> str:
        """One line: set, problems, samples and seed, and the main figures."""
        low, high = self.samples
        samples = f"{'' if low == high else f'{low} to '}{counted(high, 'sample')}"
        seed = "" if self.seed is None else f", seed {self.seed}"
        what = f"{self.set_name}: {counted(self.counts.problems, 'problem')} x {samples}{seed}"
        return "; ".join([what, *self._main_figures()])

    def _main_figures(self) -> list[str]:
        found = [
            f"{words} {shown(self.figures[name].estimate)}"
            for name, words in _HEADLINE.items()
            if name in self.figures and self.figures[name].estimate.value is not None
        ]
        tokens = self.figures.get("tokens")
        if tokens is not None:
            found.append(f"{number(tokens.estimate.value, 'amount')} tokens an episode")
        return found

    def __rich__(self) -> Group:
        """For a console: `rich.print(report)`."""
        return _rich(self)

    def __str__(self) -> str:
        """The tables as plain text, 100 characters wide."""
        return console_text(self, 100).rstrip()

    def _repr_html_(self) -> str:
        """The tables as HTML, for notebooks."""
        return _html(self)

    def latex(self) -> str:
        r"""The figures, and the baselines if there are any, as LaTeX tables; they need the package booktabs.

        Example:
            >>> report = build_report([], title="nothing", problem_set="none_1", generated=False)
            >>> r"none\_1" in report.latex()
            True
        """
        return _latex(self)

    def markdown(self) -> str:
        """The report as GitHub-flavoured Markdown.

        Example:
            >>> build_report([], title="nothing", problem_set="none", generated=False).markdown()[:9]
            '# nothing'
        """
        return _markdown(self)

    def json_text(self) -> str:
        """The report as JSON; `Report.model_validate_json` reads it back."""
        return json.dumps(self.model_dump(mode="json"), indent=2, allow_nan=False) + "\n"  # ASCII


_HEADLINE = {"system_accuracy": "System", "solver_accuracy": "first attempt", "gain": "difference"}


def build_report(  # public edge: friendly keywords, each with a default
    trees: Sequence[Tree],
    *,
    title: str,
    problem_set: str,
    generated: bool,
    style: str = "",
    seed: int | None = None,
    answer_of: AnswerOf | None = None,
    baselines: Sequence[Baseline] = (),
    notes: Sequence[str] = (),
    rewards: Mapping[str, str] | None = None,
    made_by: Provenance | None = None,
    prices: Prices | None = None,
) -> Report:
    """The report of a run's trees.

    Args:
        trees: Every tree of the run, several a problem.
        title: What was played.
        problem_set: The name of the problem set.
        generated: Whether its problems were generated.
        style: What they imitate, if they were.
        seed: The run's seed.
        answer_of: What a turn votes for; without it there is no maj@k.
        baselines: From `mars_env.evaluation.baselines`.
        notes: Sentences that a reader must know, shown before those about what was left out.
        rewards: Names of the reward functions that replaced those of the rules, by role.
        made_by: The code that played, from `mars_env.evaluation.provenance`.
        prices: Of a million tokens read and sampled, by policy, from `mars_env.evaluation.costs`.

    Example:
        >>> r = build_report([], title="t", problem_set="aime", generated=True, style="AIME-style")
        >>> r.set_name
        'aime (generated, AIME-style)'
    """
    groups = by_problem(trees)
    metrics = measure(trees, answer_of)
    found = estimates(metrics, list(groups))
    sizes = [len(group) for group in groups.values()] or [0]
    counts = count(trees)
    return Report(
        title=title,
        problem_set=problem_set,
        generated=generated,
        style=style,
        samples=(min(sizes), max(sizes)),
        seed=seed,
        figures={name: Figure(title=metrics[name].title, estimate=found[name]) for name in telling(metrics)},
        counts=counts,
        baselines=tuple(baselines),
        notes=(*notes, *derived_notes(counts, baselines)),
        agents=policies(trees),
        rewards=dict(rewards or {}),
        commit=made_by.commit if made_by else None,
        versions=made_by.versions if made_by else {},
        cost=None if prices is None else cost(trees, prices),
    )


def derived_notes(counts: Counts, baselines: Sequence[Baseline]) -> tuple[str, ...]:
    """What counts and baselines say in sentences: what was left out, and why."""
    notes = []
    if counts.faults:
        notes.append(
            f"Episodes not finished, left out of the System: {sum(counts.faults.values())} of "
            f"{counts.episodes}: {_reasons(counts.faults)}"
        )
    if counts.unknown:
        notes.append(f"Grades UNKNOWN, left out of every rate: {_reasons(counts.unknown)}")
    if counts.interrupted:
        notes.append(
            "Turns cut off by the model's context or a content filter, UNKNOWN and left out: "
            f"{_by_role(counts.interrupted, counts.turns)}"
        )
    notes += [
        f"Rewards missing because the reward failed, {one_line(role)}: {_reasons(reasons)}"
        for role, reasons in sorted(counts.reward_faults.items())
    ]
    notes += [
        f"{baseline.name}: it spent fewer tokens than the System ({baseline.tokens:.0f} per problem)"
        for baseline in baselines
        if baseline.short
    ]
    return tuple(notes)


def _reasons(reasons: Mapping[str, int]) -> str:
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{n} x {one_line(reason, 200)}" for reason, n in ranked[:SHOWN_REASONS]]
    if len(ranked) > SHOWN_REASONS:
        shown.append(f"{len(ranked) - SHOWN_REASONS} more reasons")
    return "; ".join(shown)


def number(value: float | None, scale: str) -> str:
    """A value as a reader expects it: rates in percent, differences signed, amounts plain.

    Example:
        >>> number(0.4104, "rate"), number(-0.024, "difference"), number(1234.5, "amount")
        ('41.0%', '-2.4', '1,234')
    """
    if value is None:
        return "–"
    if scale == "rate":
        return f"{100 * value:.1f}%"
    if scale == "difference":
        return f"{100 * value:+.1f}"
    if scale == "value":
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def interval(estimate: Estimate) -> str:
    """The 95% interval in the style of `number`.

    Example:
        >>> interval(Estimate(0.5, 0.4, 0.6, 30))
        '[40.0, 60.0]'
    """
    if estimate.low is None or estimate.high is None:
        return ""
    low, high = (number(x, estimate.scale).rstrip("%") for x in (estimate.low, estimate.high))
    return f"[{low}, {high}]"


def shown(estimate: Estimate) -> str:
    """Value and interval in one text.

    Example:
        >>> shown(Estimate(0.5, 0.4, 0.6, 30))
        '50.0% [40.0, 60.0]'
    """
    return f"{number(estimate.value, estimate.scale)} {interval(estimate)}".strip()


def count_rows(counts: Counts) -> list[tuple[str, str]]:
    """The counts of a run as (what, how many) for a table; what does not apply to the run is left out."""
    turns = ", ".join(f"{one_line(role)} {n:,}" for role, n in counts.turns.items())
    failed = {role: sum(reasons.values()) for role, reasons in counts.reward_faults.items()}
    rows = [
        ("Episodes", f"{counts.episodes:,}"),
        ("Episodes not finished", f"{sum(counts.faults.values()):,}"),
        ("Turns", f"{sum(counts.turns.values()):,} ({turns})" if turns else "0"),
        ("Turns cut off by their own limit", _by_role(counts.truncated, counts.turns) or "0"),
        ("Turns cut off by context or filter", _by_role(counts.interrupted, counts.turns)),
        ("Grades UNKNOWN", f"{sum(counts.unknown.values()):,}"),
        ("Rewards that failed", _by_role(failed, counts.turns)),
    ]
    if counts.verdicts or counts.malformed or counts.false_accepts or counts.false_rejects:
        of_all = f" of {counts.verdicts:,}" if counts.verdicts else ""  # older reports do not say
        rows += [
            ("Verdicts malformed", f"{counts.malformed:,}{of_all}"),
            ("Wrong solutions accepted", f"{counts.false_accepts:,}"),
            ("Right solutions rejected", f"{counts.false_rejects:,}"),
        ]
    amounts = {
        "Model calls": counts.calls,
        "Tokens sampled": counts.completion_tokens,
        "Tokens read": counts.prompt_tokens,
    }
    rows += [(what, f"{n:,}") for what, n in amounts.items() if n]
    return [(what, how_many) for what, how_many in rows if how_many]


def origin_rows(report: Report) -> list[tuple[str, str]]:
    """Who played, with what code, at what cost, as (what, which) for a table; without what is unknown."""
    agents = dict.fromkeys(report.agents.values())
    if len(agents) == 1:
        who = f"{next(iter(agents))} ({', '.join(report.agents)})"
    else:
        who = ", ".join(f"{agent}: {policy}" for agent, policy in report.agents.items())
    rows = [
        ("Agents", who if report.agents else ""),
        ("Own rewards", ", ".join(f"{role}: {name}" for role, name in report.rewards.items())),
        ("Commit", report.commit or ""),
        ("Versions", ", ".join(f"{name} {number}" for name, number in report.versions.items())),
        ("Cost", "" if report.cost is None else money(report.cost)),
    ]
    return [(what, one_line(which, 300)) for what, which in rows if which]


def _by_role(numbers: Mapping[str, int], turns: Mapping[str, int]) -> str:
    ranked = sorted(numbers.items())
    return ", ".join(f"{one_line(role)} {n:,} of {turns.get(role, 0):,}" for role, n in ranked)


def baseline_rows(report: Report) -> list[tuple[str, str, str, str, str]]:
    """The equal-token table: name, size, accuracy, tokens, System minus it; the System first."""
    system, tokens = report.figures.get("system_accuracy"), report.figures.get("tokens")
    if not report.baselines or system is None or tokens is None:
        return []
    rows = [("System", "", shown(system.estimate), number(tokens.estimate.value, "amount"), "")]
    rows += [
        (
            one_line(b.name),
            one_line(b.detail),
            shown(b.accuracy),
            number(b.tokens, "amount"),
            shown(b.system_minus),
        )
        for b in report.baselines
    ]
    return rows


BASELINE_HEADS = ("At the System's tokens", "Size", "Accuracy", "Tokens a problem", "System minus it")


FIGURE_HEADS = ("", "Value", "95% interval", "Problems")


def figure_rows(report: Report) -> list[tuple[str, str, str, str]]:
    """The figures of a report for a table: title, value, interval, problems."""
    return [
        (
            one_line(f.title, 100),
            number(f.estimate.value, f.estimate.scale),
            interval(f.estimate),
            str(f.estimate.problems),
        )
        for f in report.figures.values()
    ]


def _rich(report: Report) -> Group:
    parts: list[ConsoleTable | Text] = [
        Text(one_line(report.title, 200), style="bold"),
        Text(one_line(report.headline, 500)),
    ]
    parts.append(table(FIGURE_HEADS, figure_rows(report)))
    if rows := baseline_rows(report):
        parts.append(table(BASELINE_HEADS, rows))
    parts.append(table(("Counts", ""), count_rows(report.counts), align="left"))
    if origin := origin_rows(report):
        parts.append(table(("Made with", ""), origin, align="left"))
    parts += [Text(f"Note: {note}", style="yellow") for note in report.notes]
    return Group(*parts)


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, markup: bool = False) -> str:
    r"""A Markdown table; bars, HTML, links and other markup in the cells are escaped.

    Args:
        heads: Of the columns.
        rows: Their cells.
        markup: Whether the cells are Markdown of the library's own, with bold figures and links: they are
            left as they are, bars and HTML apart.

    Example:
        >>> print(markdown_table(["a"], [["x|<b> [2](u)"]]))
        | a |
        |---|
        | x\|&lt;b> \[2](u) |
    """
    lines, cell = [list(heads), *rows], _bar_free if markup else _cell
    texts = ["| " + " | ".join(cell(c) for c in row) + " |" for row in lines]
    texts.insert(1, "|" + "---|" * len(heads))
    return "\n".join(texts)


def _bar_free(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _cell(text: str, width: int = 300) -> str:
    """A text that Markdown shows as it is: no link, image, emphasis, code, formula, HTML or bare address."""
    shown = _MARKUP.sub(r"\\\g<0>", one_line(text, width))
    return shown.replace("&", "&amp;").replace("<", "&lt;")


def _markdown(report: Report) -> str:
    parts = [f"# {_cell(report.title)}", _cell(report.headline)]
    parts.append(markdown_table(("Figure", *FIGURE_HEADS[1:]), figure_rows(report)))
    if rows := baseline_rows(report):
        parts += ["## Baselines", markdown_table(BASELINE_HEADS, rows)]
    parts += ["## Counts", markdown_table(("Count", ""), count_rows(report.counts))]
    if origin := origin_rows(report):
        parts += ["## Made with", markdown_table(("What", ""), origin)]
    if report.notes:
        parts += ["## Notes", "\n".join(f"- {_cell(note, 2000)}" for note in report.notes)]
    parts.append(
        "Intervals are 95% with the problem as the unit (clustered bootstrap). Differences are in "
        "percentage points, paired by problem."
    )
    return "\n\n".join(parts) + "\n"


def _html(report: Report) -> str:
    parts = [f"<h3>{escape(one_line(report.title, 200))}</h3><p>{escape(one_line(report.headline, 600))}</p>"]
    parts.append(html_table(FIGURE_HEADS, figure_rows(report)))
    if rows := baseline_rows(report):
        parts.append(html_table(BASELINE_HEADS, rows))
    parts.append(html_table(("Counts", ""), count_rows(report.counts)))
    if origin := origin_rows(report):
        parts.append(html_table(("Made with", ""), origin))
    parts += [f"<p>Note: {escape(note)}</p>" for note in report.notes]
    return "\n".join(parts)


def _latex(report: Report) -> str:
    caption = f"{report.title}, {report.headline}. Intervals are 95%, the problem is the unit."
    parts = [latex_table(("", *FIGURE_HEADS[1:]), figure_rows(report), caption)]
    if rows := baseline_rows(report):
        parts.append(latex_table(BASELINE_HEADS, rows, f"{report.title}: equal-token baselines."))
    return "\n".join(parts)


def console_text(renderable: object, width: int = 120) -> str:
    """What a console of that width would show, without colours; for logs and tests.

    Example:
        >>> console_text(table(["a"], [["b"]])).split()[0]
        'a'
    """
    console = Console(width=width, file=io.StringIO(), color_system=None, record=True)
    console.print(renderable)
    return console.export_text()
