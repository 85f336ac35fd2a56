"""Programs with colours, and what changed from one text to the next."""

import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import cache, partial

from markupsafe import Markup

MAX_COLOURED = 6_000
MAX_LINES = 600
CONTEXT = 2

_LEXERS = {
    "": "python", "py": "python", "python": "python", "python3": "python", "c": "c", "cpp": "cpp",
    "c++": "cpp", "java": "java", "javascript": "javascript", "js": "javascript", "rust": "rust", "go": "go",
    "bash": "bash", "sh": "bash", "json": "json",
}  # fmt: skip
_WIDE = re.compile(r"\s{200}")  # Pygments takes quadratic time for it
_SENTENCES = re.compile(r"(?<=[.!?:])[ \t]+|(?<=\n)")


def coloured(program: str, language: str = "") -> Markup | None:
    """A program as HTML; None without Pygments, if it is too long, or in an unknown language.

    Example:
        >>> print(coloured("return 1 < 2"))  # doctest: +ELLIPSIS
        <span class="k">return</span> <span class="mi">1</span> <span class="o">&lt;</span> ...
    """
    name = _LEXERS.get(language.lower())
    if name is None or len(program) > MAX_COLOURED or _WIDE.search(program):
        return None
    draw = _drawer(name)
    return None if draw is None else Markup(draw(program).rstrip("\n"))  # Pygments has escaped every token


@cache
def _drawer(name: str) -> Callable[[str], str] | None:
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
    except ImportError:  # rich brings it
        return None
    lexer = get_lexer_by_name(name, stripnl=False)
    return partial(highlight, lexer=lexer, formatter=HtmlFormatter(nowrap=True))


def changed_lines(before: str, after: str) -> Markup | None:
    r"""What changed, line by line (sentence by sentence in short texts), as HTML; None for very long texts.

    Example:
        >>> print(changed_lines("a = 1\nb = 2\n", "a = 1\nb = 3\n"))
        <span>  a = 1</span>
        <del>- b = 2</del>
        <ins>+ b = 3</ins>
    """
    old, new = _pieces(before), _pieces(after)
    if old == new or max(len(old), len(new)) > MAX_LINES:
        return None
    rows: list[Markup] = []
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(CONTEXT)):
        if number:
            rows.append(Markup("<span>  …</span>"))
        for kind, i, j, k, m in group:
            if kind == "equal":
                rows += _rows("span", "  ", old[i:j])
            else:
                rows += [*_rows("del", "- ", old[i:j]), *_rows("ins", "+ ", new[k:m])]
    return Markup("\n").join(rows)


def _pieces(text: str) -> list[str]:
    lines = text.strip("\n").split("\n")
    if len(lines) < 4 and len(text) > 200:
        lines = [piece.rstrip("\n") for piece in _SENTENCES.split(text) if piece.strip()]
    return lines


def _rows(tag: str, sign: str, lines: Sequence[str]) -> list[Markup]:
    return [Markup("<{0}>{1}{2}</{0}>").format(Markup(tag), sign, line) for line in lines]
