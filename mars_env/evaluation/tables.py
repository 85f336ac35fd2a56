"""Tables of strings and estimates for consoles, as Markdown, HTML and LaTeX; no cell is read as markup."""

import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Literal

from pydantic import BaseModel
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from mars_env.evaluation.statistics import Estimate
from mars_env.text import one_line

Cell = str | Estimate

WIDE = 120
"""Columns of a console that has room for the intervals of estimates."""

_NAME = 20
"""Columns that the names of a table's rows need at least."""


@dataclass(frozen=True, slots=True)
class Table:
    r"""A table for readers. Each row begins with its name; a `caption` puts it into papers.

    `align` is of all columns but the first: cells on the right are numbers, which never wrap.

    Example:
        >>> table = Table(("Run", "Accuracy"), (("a_b", Estimate(0.5, 0.4, 0.6, 30)),))
        >>> print(as_markdown(table))
        | Run | Accuracy |
        |---|---|
        | a_b | 50.0% \[40.0, 60.0] |
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    align: Literal["left", "right"] = "right"
    caption: str = ""

    def strings(self) -> list[list[str]]:
        """The rows, estimates with their intervals."""
        return [[with_interval(c) if isinstance(c, Estimate) else c for c in row] for row in self.rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table; on a narrow console estimates have no intervals, or a row's cells are lines."""
        table = self if options.max_width >= WIDE else self._without_intervals()
        lines = [[one_line(cell, 200) for cell in row] for row in (table.columns, *table.strings())]
        drawn = _drawn(lines, self.align)
        fits = drawn.__rich_measure__(console, options).minimum <= options.max_width
        yield drawn if fits or self.align == "left" else _drawn(_stacked(lines), "left")

    def _without_intervals(self) -> "Table":
        of = {i for row in self.rows for i, cell in enumerate(row) if isinstance(cell, Estimate)}
        heads = tuple(one_line(head, 12) if i in of else head for i, head in enumerate(self.columns))
        rows = (
            tuple(number_text(c.value, c.scale) if isinstance(c, Estimate) else c for c in row)
            for row in self.rows
        )
        return replace(self, columns=heads, rows=tuple(rows))


def _drawn(lines: Sequence[Sequence[str]], align: Literal["left", "right"]) -> RichTable:
    result = RichTable(box=box.SIMPLE_HEAD)
    for i, column in enumerate(zip(*lines, strict=True)):
        longest, whole = max(map(cell_len, column)), i > 0 and align == "right"
        result.add_column(
            Text(column[0]),
            justify="left" if i == 0 else align,
            no_wrap=whole,
            overflow="fold",
            min_width=longest if whole else min(longest, _NAME),
        )
    for row in lines[1:]:
        result.add_row(*map(Text, row))
    return result


def _stacked(lines: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Two columns: under the name of each row its cells with their heads, those that are not empty."""
    (first, *heads), *rows = lines
    stacked = [(first, "")]
    for name, *cells in rows:
        stacked.append((name, ""))
        stacked += [(f"  {head}", cell) for head, cell in zip(heads, cells, strict=True) if cell]
    return stacked


def console_text(renderable: object, width: int = 100) -> str:
    """What a console of that width would show, without colours."""
    console = Console(width=width, file=io.StringIO(), color_system=None, record=True)
    console.print(renderable)
    return console.export_text()


def as_markdown(table: Table, *, markup: bool = False) -> str:
    """A Markdown table; bars, HTML, links and other markup in the cells are escaped.

    With `markup` the cells are Markdown of the library (bold numbers, links): bars and HTML apart, they stay.
    """
    cell = (lambda text: text.replace("|", "\\|").replace("<", "&lt;")) if markup else markdown_text
    lines = ["| " + " | ".join(map(cell, row)) + " |" for row in (table.columns, *table.strings())]
    lines.insert(1, "|" + "---|" * len(table.columns))
    return "\n".join(lines)


_MARKUP = re.compile(r"[\\`*~|\[$]|(?<!\w)_|_(?!\w)|:(?=//)|(?<=www)\.|^(?=[#>])", re.IGNORECASE)


def markdown_text(text: str, width: int = 300) -> str:
    """A string that Markdown shows as it is: no link, emphasis, code, formula, HTML or bare address."""
    escaped = _MARKUP.sub(r"\\\g<0>", one_line(text, width))
    return escaped.replace("&", "&amp;").replace("<", "&lt;")


def as_html(table: Table) -> str:
    """A table as HTML, for notebooks."""
    head = "".join(f"<th>{escape(one_line(cell, 200))}</th>" for cell in table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(one_line(cell, 400))}</td>" for cell in row) + "</tr>"
        for row in table.strings()
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def as_latex(table: Table) -> str:
    """A table for a paper; it needs the package booktabs."""
    head, *rows = (" & ".join(map(_latex, row)) + r" \\" for row in (table.columns, *table.strings()))
    columns = "l" + "r" * (len(table.columns) - 1)
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_latex(table.caption)}}}"]
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
        "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "…": r"\ldots{}",
        "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    }
)  # fmt: skip
_MINUS = re.compile(r"(?<!\w)-(?=\d)")


def _latex(text: str) -> str:
    return _MINUS.sub("$-$", one_line(text, 400).translate(_LATEX))


def number_text(value: float | None, scale: str) -> str:
    """A value as a reader expects it: rates in percent, differences signed, amounts plain.

    Example:
        >>> number_text(0.4104, "rate"), number_text(-0.024, "difference"), number_text(1234.5, "amount")
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
    """The 95% interval in the style of `number_text`; empty where it is open."""
    if estimate.low is None or estimate.high is None:
        return ""
    low, high = (number_text(x, estimate.scale).rstrip("%") for x in (estimate.low, estimate.high))
    return f"[{low}, {high}]"


def with_interval(estimate: Estimate) -> str:
    """Value and interval."""
    return f"{number_text(estimate.value, estimate.scale)} {interval(estimate)}".strip()


class Tabled(BaseModel, ABC, frozen=True, extra="forbid"):
    """A value that readers see as tables: on consoles, in notebooks, as Markdown, LaTeX and JSON."""

    @abstractmethod
    def heading(self) -> tuple[str, ...]:
        """The title, and lines below it."""

    @abstractmethod
    def tables(self) -> list[Table]:
        """The tables, in the order of display."""

    @abstractmethod
    def remarks(self) -> Sequence[str]:
        """What a reader must know of them."""

    def __rich__(self) -> Group:
        title, *more = (Text(one_line(line, 500)) for line in self.heading())
        title.stylize("bold")
        notes = (Text(f"Note: {note}", style="yellow") for note in self.remarks())
        return Group(title, *more, *self.tables(), *notes)

    def __str__(self) -> str:
        return console_text(self).rstrip()

    def _repr_html_(self) -> str:
        title, *more = self.heading()
        lines = [*map(_paragraph, more), *map(as_html, self.tables())]
        lines += [_paragraph(f"Note: {note}") for note in self.remarks()]
        return "\n".join([f"<h3>{escape(one_line(title, 200))}</h3>", *lines])

    def markdown(self) -> str:
        """The tables as GitHub-flavoured Markdown."""
        title, *more = map(markdown_text, self.heading())
        parts = [f"# {title}", *more]
        for table in self.tables():
            parts += [f"## {table.title}"] if table.title else []
            parts.append(as_markdown(table))
        if notes := self.remarks():
            parts += ["## Notes", "\n".join(f"- {markdown_text(note, 2000)}" for note in notes)]
        return "\n\n".join([*parts, _INTERVALS]) + "\n"

    def latex(self) -> str:
        """The tables that have a caption, for a paper; they need the package booktabs."""
        return "\n".join(as_latex(table) for table in self.tables() if table.caption)

    def json_text(self) -> str:
        """ASCII JSON; `model_validate_json` of the class reads it back."""
        return json.dumps(self.model_dump(mode="json"), indent=2, allow_nan=False) + "\n"


_INTERVALS = (
    "Intervals are 95% with the problem as the unit (clustered bootstrap). Differences of rates are in "
    "percentage points, paired by problem."
)


def _paragraph(line: str) -> str:
    return f"<p>{escape(one_line(line, 2000))}</p>"
