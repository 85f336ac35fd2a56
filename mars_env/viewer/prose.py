"""A model's text as HTML: formulas as MathML, fenced programs with colours, everything else escaped."""

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from markupsafe import Markup, escape

from mars_env.viewer.mathml import MAX_FORMULA, mathml
from mars_env.viewer.programs import coloured

T = TypeVar("T")

Formulas = Callable[[str, bool], Markup | None]  # of a formula, and whether it has a line of its own
Colours = Callable[[str, str], Markup | None]  # of a program and its language

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]{0,20})[^\n`]*\n", re.MULTILINE)
_MOST = MAX_FORMULA
_FORMULA = re.compile(
    rf"""
    \$\$(?P<dollars>[^$]{{1,{_MOST}}}?)\$\$
  | \\\[(?P<square>.{{1,{_MOST}}}?)\\\]
  | \\\((?P<round>.{{1,{_MOST}}}?)\\\)
  | \\begin\{{(?P<name>align|aligned|equation|gather|cases|[bpv]?matrix)(?P<star>\*?)\}}
      (?P<environment>.{{1,{_MOST}}}?)\\end\{{(?P=name)(?P=star)\}}
  | (?<![\\$\w])\$(?=[^\s$])(?P<dollar>[^$\n]{{1,{_MOST}}}?)(?<=[^\s\\])\$(?![\d$])
  | (?P<boxed>\\boxed\s*\{{)
    """,
    re.VERBOSE | re.DOTALL,
)


def prose(text: str, formulas: Formulas = mathml, colours: Colours = coloured) -> Markup:
    r"""A text without control characters (`mars_env.text.visible`) as HTML for a ``<pre>``.

    Example:
        >>> print(prose("So <b> is $x$."))  # doctest: +ELLIPSIS
        So &lt;b&gt; is <span class="math" title="$x$"><math display="inline">...</math></span>.
        >>> print(prose("```python\nreturn\n```"))
        <code class="program"><span class="k">return</span></code>
    """
    return Markup("").join(_pieces(text, formulas, colours))


def limited(draw: Callable[[str, T], Markup | None], most: int) -> Callable[[str, T], Markup | None]:
    """`draw`, until so many characters were drawn: the time that a page takes is bounded.

    Example:
        >>> formulas = limited(mathml, 3)
        >>> formulas("x+1", False) is None, formulas("y+1", False) is None, formulas("x+1", False) is None
        (False, True, False)
    """
    left, known = most, dict[tuple[str, T], Markup | None]()

    def drawn(text: str, how: T) -> Markup | None:
        nonlocal left
        if (text, how) not in known and len(text) <= left:
            left -= len(text)
            known[text, how] = draw(text, how)
        return known.get((text, how))

    return drawn


def _pieces(text: str, formulas: Formulas, colours: Colours) -> Iterator[Markup]:
    at = 0
    while fence := _FENCE.search(text, at):
        yield from _formulas(text[at : fence.start()], formulas)
        mark, language = fence.groups()
        closing = re.compile(rf"^ {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$", re.MULTILINE)
        end = closing.search(text, fence.end())
        program = text[fence.end() : end.start() if end else len(text)].rstrip("\n")
        yield Markup('<code class="program">{}</code>').format(colours(program, language) or program)
        at = end.end() if end else len(text)
        if end and text.startswith("\n", at):  # the block ends its own line
            at += 1
    yield from _formulas(text[at:], formulas)


def _formulas(text: str, formulas: Formulas) -> Iterator[Markup]:
    at = 0
    while found := _FORMULA.search(text, at):
        yield escape(text[at : found.start()])
        end = found.end()
        if found["boxed"]:
            end = _closing(text, end)
        written = text[found.start() : end]
        latex, display = _latex(found, written)
        formula = formulas(latex, display) if latex else None
        if formula is None:
            end = found.end() if found["boxed"] else end
            yield escape(text[found.start() : end])
        else:
            kind = Markup("math display" if display else "math")
            # A line's end within the block starts no further line.
            line_end = "\n" if display and text.startswith("\n", end) else ""
            end += len(line_end)
            yield Markup('<span class="{}" title="{}">{}{}</span>').format(kind, written, formula, line_end)
        at = end
    yield escape(text[at:])


def _latex(found: re.Match[str], written: str) -> tuple[str, bool]:
    if found["boxed"]:
        return ("" if written.endswith("{}") else written), False
    displayed = found["dollars"] or found["square"] or (found["name"] and written)
    return (displayed or found["round"] or found["dollar"]).strip(), bool(displayed)


def _closing(text: str, start: int) -> int:
    """The end of a group whose brace was opened just before; the start itself if it is not closed."""
    depth = 1
    for i in range(start, min(len(text), start + MAX_FORMULA)):
        depth += (text[i] == "{") - (text[i] == "}")
        if not depth:
            return i + 1
    return start
