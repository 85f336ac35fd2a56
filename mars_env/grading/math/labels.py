r"""Removes the words before an answer: ``\text{The answer is } 7``, ``Option C``, ``(C) 48``."""

from __future__ import annotations

import re

_OPEN = r"[\s$]*(?P<font>\\(?:text(?:bf|it|rm)?|mathrm|mathbf|mbox)\s*\{\s*)?"
_SAID = (
    r"(?:(?:the|my|our)\s+)?(?:(?:final|correct|right)\s+)?answers?\s*(?:is|are|[:=])"
    r"|the\s+(?:(?:minimum|maximum|smallest|largest|least|greatest|total|required|desired|exact)\s+)?"
    r"(?:value|number|area|sum|length|probability|minimum|maximum|product|ratio|perimeter|volume|distance"
    r"|remainder|total)(?:\s+of\s+[A-Za-z]+)?\s*(?:is|are|[:=])"
    r"|there\s+(?:are|is)(?:\s+(?:exactly|only))?(?=[\s}])|it\s+is(?:\s+an?)?(?=[\s}])|(?:option|choice)(?=[\s}({\\])"
    r"|答案\s*(?:是|为|:)|选项?(?=[\s(A-J])"
)
_LABEL = re.compile(rf"{_OPEN}(?:{_SAID})\s*(?P<shut>\}})?[\s~:]*(?:\\[,;: ]\s*)*", re.IGNORECASE)
_LETTER = re.compile(
    rf"{_OPEN}\(\s*[A-J]\s*\)\s*[.:]?\s*(?P<shut>\}})?"
    r"(?:\\[,;: ]|\\q?quad\b|[\s~])*(?=[-+]?[\d\\$.])(?!\\(?:cdot|times|cup|cap|text\w*\s*\{\s*(?:and|or)\b))"
)

_ARGUMENT = r"(?:\([^()=]{1,40}\)|\\left\([^()=]{1,40}\\right\))"
_QUANTITY = re.compile(
    rf"[\s$]*(?:\\(?:phi|varphi|tau|sigma|zeta|Gamma|omega|Omega|mu|psi)\s*{_ARGUMENT}"
    r"|\\(?:det|dim|deg|Pr|(?:operatorname|text|mathrm|mathbb)\s*\{\s*(?:[A-Z][A-Za-z]{0,11}|rank|tr|ord|nullity|lcm)\s*\})\s*"
    r"(?:\\left)?(?:[A-Za-z]|\([^()]{1,60}\)|\[[^\[\]]{1,60}\])"
    r"|P\s*(?:\\left)?\([^()=]{1,30}(?:\\mid|\|)[^()=]{1,30}\)"
    r"|(?P<bar>\||\\left\|)?\s*[A-Z](?:\s*\\(?:cap|cup|setminus)\s*[A-Z]){1,3}\s*(?(bar)(?:\||\\right\|))"
    r"|[A-Za-z](?:_\{?\\(?:max|min|text\{[a-z]{1,12}\}|mathrm\{[a-z]{1,12}\})\}?|\^\{?(?:\*|\\ast)\}?)"
    r")\s*=(?!=)\s*(?=\S)"
)
_VERDICT = re.compile(
    r"\s*(?:\\text\w*\s*\{\s*)?(?P<word>yes|no|true|false)\s*(?:[.,;:–—]|-)\s*(?P<rest>[^{}]{1,200})\}?\s*\Z",
    re.IGNORECASE,
)
_SECOND_THOUGHT = re.compile(r"\b(?:yes|no|true|false|if|unless|but|maybe|perhaps|wait|or)\b", re.IGNORECASE)


def unlabelled(answer: str) -> str:
    r"""An answer without the words that only say that it is the answer."""
    verdict = _VERDICT.match(answer)
    if verdict and not _SECOND_THOUGHT.search(verdict["rest"]):
        return verdict["word"]
    return _without(_LABEL.match(answer), answer)


def unnamed(answer: str) -> str:
    r"""An answer without the name of a quantity before it."""
    named = _QUANTITY.match(answer)
    return answer[named.end() :] if named else answer


def without_letter(answer: str) -> str:
    r"""A choice's value without its letter."""
    return _without(_LETTER.match(answer), answer)


def _without(label: re.Match[str] | None, answer: str) -> str:
    """The answer after a label; a font that is opened in the label and not shut there stays."""
    if label is None or label.end() == len(answer) or (label["shut"] and not label["font"]):
        return answer
    return ("" if label["shut"] else (label["font"] or "").strip()) + answer[label.end() :]
