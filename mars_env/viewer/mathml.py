"""LaTeX as MathML, which browsers draw by themselves.

A formula is hostile: it is bounded before it is parsed, and only known elements and attributes are written.
"""

import re
from collections.abc import Mapping
from html import unescape
from itertools import accumulate
from xml.etree.ElementTree import Element

from markupsafe import Markup, escape

from mars_env.text import visible

MAX_FORMULA = 800
MAX_DEPTH = 16
MAX_ELEMENTS = 2_000

_ELEMENTS = frozenset(
    ("math", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "msup", "msub", "msubsup", "munder", "mover",
     "munderover", "mfrac", "msqrt", "mroot", "mtable", "mtr", "mtd", "mstyle", "mpadded", "mphantom",
     "menclose", "mfenced", "mmultiscripts", "mprescripts", "none")
)  # fmt: skip
_ATTRIBUTES = frozenset(
    ("display", "displaystyle", "scriptlevel", "mathvariant", "stretchy", "fence", "separator", "form",
     "accent", "accentunder", "largeop", "movablelimits", "symmetric", "notation", "columnalign", "rowlines",
     "columnlines")
)  # fmt: skip
_LENGTHS = frozenset(
    ("width", "height", "depth", "lspace", "rspace", "linethickness", "rowspacing", "columnspacing")
)
_BRACKETS = frozenset("()[]{}|")
_WORDS = re.compile(r"(true|false|[+-]?\d|[a-z -]{1,40})\Z")
_LENGTH = re.compile(r"[+-]?(0|[01]?\.\d{1,4}|[012](\.\d{1,4})?)(em|ex)?\Z")  # nothing moves far away

# Definitions multiply a text at will; \sideset writes its operator twice, so that nested ones double.
_REFUSED = re.compile(
    r"\\(?:(?:re|provide)?newcommand|def|let|DeclareMathOperator|newenvironment|sideset|mathchoice"
    r"|href|style|class|verb)(?![a-zA-Z])|'{5}"
)


def mathml(latex: str, display: bool = False) -> Markup | None:
    r"""A formula without its dollars as a MathML element; None where it must stay LaTeX.

    Example:
        >>> mathml("x^2")
        Markup('<math display="inline"><mrow><msup><mi>x</mi><mn>2</mn></msup></mrow></math>')
        >>> mathml(r"\def\a{x}") is None
        True
    """
    deepest = max(accumulate((each == "{") - (each == "}") for each in latex), default=0)
    if len(latex) > MAX_FORMULA or _REFUSED.search(latex) or deepest > MAX_DEPTH:
        return None
    try:
        from latex2mathml.converter import Converter
    except ImportError:  # the extra `viewer` is not installed
        return None
    try:
        element = Converter(display="block" if display else "inline").convert_to_element(latex)
        pieces: list[str] = []
        if sum(1 for _ in element.iter()) > MAX_ELEMENTS or not _write(element, pieces):
            return None
        return Markup("".join(pieces))  # every text and value in it was escaped
    except Exception:  # the parser may raise anything on an untrusted string: StopIteration, IndexError ...
        return None


def _write(element: Element, pieces: list[str], attributes: Mapping[str, str] | None = None) -> bool:
    if element.tag not in _ELEMENTS:
        return False
    allowed = [(name, value) for name, value in element.attrib.items() if _is_known(name, value)]
    written = "".join(f' {name}="{escape(value)}"' for name, value in [*allowed, *(attributes or {}).items()])
    # Its texts are written with entities, such as &#x02211;.
    pieces.append(f"<{element.tag}{written}>{escape(visible(unescape(element.text or '')))}")
    children = list(element)
    stacked = [child.attrib.get("linethickness") == "0" for child in children]
    for i, child in enumerate(children):
        # In LaTeX brackets grow by \left and \right, and around a binomial; in MathML by themselves.
        plain = child.tag == "mo" and unescape(child.text or "") in _BRACKETS and not child.attrib
        flat = plain and not any(stacked[max(0, i - 1) : i + 2])
        if not _write(child, pieces, {"stretchy": "false"} if flat else None):
            return False
    pieces.append(f"</{element.tag}>")
    return True


def _is_known(name: str, value: str) -> bool:
    if name in _LENGTHS:
        return _LENGTH.match(value) is not None
    return name in _ATTRIBUTES and _WORDS.match(value) is not None
