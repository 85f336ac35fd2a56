"""Tables of plain strings for consoles, as HTML and as LaTeX; no cell is read as markup."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from mars_env.text import one_line

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
        "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "…": r"\ldots{}",
        "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    }
)  # fmt: skip
_MINUS = re.compile(r"(?<!\w)-(?=\d)")


def latex_text(text: str) -> str:
    r"""A text that LaTeX prints as it is, with a minus before numbers.

    Example:
        >>> print(latex_text("50% of a_b: -2.4 pass-2"))
        50\% of a\_b: $-$2.4 pass-2
    """
    return _MINUS.sub("$-$", one_line(text, 400).translate(_LATEX))


def latex_table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    r"""A table for a paper; it needs the package booktabs. The first column is on the left.

    Example:
        >>> print(latex_table(["", "Value"], [["Solver", "50%"]], "A run."))
        \begin{table}
        \centering
        \caption{A run.}
        \begin{tabular}{lr}
        \toprule
         & Value \\
        \midrule
        Solver & 50\% \\
        \bottomrule
        \end{tabular}
        \end{table}
        <BLANKLINE>
    """
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{latex_text(caption)}}}"]
    lines += [rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}", r"\toprule", _row(heads), r"\midrule"]
    lines += [_row(row) for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(latex_text, cells)) + r" \\"


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as HTML, for notebooks.

    Example:
        >>> html_table(["a"], [["<b>"]])
        '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(one_line(cell, 200))}</th>" for cell in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(one_line(cell, 400))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True, slots=True)
class ConsoleTable:
    """A table that a console draws; one that is too narrow for it shows the cells of a row as lines.

    Attributes:
        heads: Of the columns.
        rows: Their cells, the row's name first.
        align: Of all columns but the first. Cells on the right are numbers, which never wrap.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    align: Literal["left", "right"] = "right"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        drawn = self._drawn()
        fits = drawn.__rich_measure__(console, options).minimum <= options.max_width
        yield drawn if fits or self.align == "left" else self._stacked()._drawn()

    def _drawn(self) -> Table:
        result = Table(box=box.SIMPLE_HEAD)
        for i, column in enumerate(zip(self.heads, *self.rows, strict=True)):
            longest, whole = max(map(cell_len, column)), i > 0 and self.align == "right"
            result.add_column(
                Text(column[0]),
                justify="left" if i == 0 else self.align,
                no_wrap=whole,
                overflow="fold",
                min_width=longest if whole else min(longest, _NAME),
            )
        for row in self.rows:
            result.add_row(*map(Text, row))
        return result

    def _stacked(self) -> ConsoleTable:
        lines: list[tuple[str, str]] = []
        for name, *cells in self.rows:
            lines.append((name, ""))
            lines += [(f"  {head}", cell) for head, cell in zip(self.heads[1:], cells, strict=True) if cell]
        return ConsoleTable((self.heads[0], ""), tuple(lines), "left")


_NAME = 20
"""Columns that the names of a table's rows need at least."""


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], align: Literal["left", "right"] = "right"
) -> ConsoleTable:
    """A table for a console.

    Example:
        >>> table(["a", "b"], [["[red]", "two  words"]]).rows
        (('[red]', 'two words'),)
    """
    cells = (tuple(one_line(cell, 200) for cell in row) for row in (heads, *rows))
    return ConsoleTable(next(cells), tuple(cells), align)
