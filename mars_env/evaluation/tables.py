"""Tables of plain texts as HTML and as LaTeX; whatever stands in a cell stays text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from mars_env.text import one_line

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
        "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "…": r"\ldots{}",
        "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    }
)  # fmt: skip


def latex_text(text: str) -> str:
    r"""A text that LaTeX prints as it is.

    Example:
        >>> print(latex_text("50% of a_b"))
        50\% of a\_b
    """
    return one_line(text, 400).translate(_LATEX)


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
