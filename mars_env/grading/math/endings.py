"""The end of a completion without a box: what follows an answer and does not count, and clear last lines."""

from __future__ import annotations

import re

from mars_env.grading.math.cues import puts_right
from mars_env.grading.math.phrases import is_value, only_number, peel, stated
from mars_env.grading.math.tokens import escape_money

_OFFER = re.compile(
    r"(?:\n[ \t]*|(?<=[.!?)*])[ \t]+)(?:would you like|do you want|let me know|feel free|shall i|i can also"
    r"|if you(?:['’]d| would)? (?:like|want|have|need)|(?:i )?hope (?:this|that) helps)\b[^\n]{0,300}[?!.]\Z",
    re.IGNORECASE,
)
_REMARK = re.compile(
    r"(?:\n[ \t]*|(?<=[.!*])[ \t]+)\([A-Z][^()\n]{1,300}(?:\([^()\n]{1,100}\)[^()\n]{0,200}){0,3}\)\.?\Z"
)
_ASIDE = re.compile(
    r"\s\((?:about|approximately|roughly|≈|which|i\.e\.|that is|since|because"
    r"|and (?:its|the|their|his|her)\b)"
    r"[^()\n]{1,200}\)(?=[\s.!*]*\Z)",
    re.IGNORECASE,
)
_OPENS_REMARK = re.compile(
    r"\W*(?:(?:remarks?|remarque|bemerkung|anmerkung|observación|nota|by the way|for (?:comparison|reference)"
    r"|in comparison|sanity check)\b|(?:an?|the|one|another)\s+(?:very\s+)?(?:common|frequent|typical"
    r"|tempting|usual)\s+(?:mistake|error|slip|trap)\b)",
    re.IGNORECASE,
)
_SECOND_ANSWER = re.compile(
    r"\b(?:also|alternativ\w*|possibl\w*|assum\w*|unless|maybe|perhaps|sure|unsure|could|depend\w*|however|answers?|so|thus|hence|therefore|actually)\b",
    re.IGNORECASE,
)
_EXPLAINED = re.compile(
    r"\s*\*\*([^*\n]{1,200})\*\*[.\s]*\n\s*[*_]*(?:explanation|reason(?:ing)?|justification|because)\b",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[^\W\d_]{2,}")
_FENCED = re.compile(r"(?:\A|\n)```(?:text|math)?\n[ \t]*[^\n=`<>!≠]{1,100}=[ \t]*([^\n=`]{1,100})\n```\Z")
_SOLVED = re.compile(
    r"(?:\A|\n)[ \t*#_]*(?:final |the )?(?:answers?|solutions?|results?)[ \t*_:]*\n\s*"
    r"((?:[ \t]*[-*•][ \t]+[^\n]{1,100}(?:\n|\Z)){2,10})"
    r"(?:\s*(?:substitut|check|verif|indeed)[^\n]{0,300})?\Z",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(r"([A-Za-z](?:_\d)?)\s*=")
_COMPUTED = re.compile(r"=\s*\$?\\?\$?\s*(-?[\d.,]{0,40}\d)\s*(?:[A-Za-z²³°]{1,12})?[\s.$*]*\Z")


def without_extras(text: str) -> str:
    r"""A completion without the offers of help and bracketed remarks at its end.

    A remark that speaks of another answer stays.

    Example:
        >>> without_extras("So there are **15**.\n\n(The others: 20 red.)\n\nWould you like more?")
        'So there are **15**.'
        >>> without_extras("There are **15**. (It could be 16.)")
        'There are **15**. (It could be 16.)'
    """
    for _ in range(4):
        text = text.rstrip()
        low = max(0, len(text) - 1000)
        extra = _OFFER.search(text, low) or _REMARK.search(text, low)
        if extra is None or puts_right(extra.group()) or _SECOND_ANSWER.search(_polite(extra)):
            return text
        text = text[: extra.start()]
    return text


def _polite(extra: re.Match[str]) -> str:
    """The words that count: an offer may speak of what is possible."""
    return "" if extra.re is _OFFER else extra.group()


def without_aside(sentence: str) -> str:
    """A sentence without a bracketed remark at its end, such as "(about 31.25%)"."""
    aside = _ASIDE.search(sentence)
    return sentence if aside is None or _SECOND_ANSWER.search(aside.group()) else _ASIDE.sub("", sentence)


def is_remark(sentence: str) -> bool:
    r"""Whether a sentence is about something else: a comparison, say, or a usual mistake.

    Example:
        >>> is_remark(r"For comparison, the ratio is $\frac35$."), is_remark("So the ratio is 3/5.")
        (True, False)
    """
    return _OPENS_REMARK.match(sentence) is not None


def bold_sentence(bold: str) -> str:
    """The value that a bold sentence at the end states; the whole text if it states none."""
    said = without_aside(bold)
    value = peel(said)
    if is_value(value) or bold.rstrip().endswith("?") or len(_WORDS.findall(value)) < 3:
        return peel(bold)
    return stated(value) or only_number(f"So {value}") or peel(bold)


def clear_ending(text: str) -> str | None:
    r"""The value of an equation alone in a fence, a headed list of assignments, or a number said again.

    Example:
        >>> clear_ending("Multiply: 35 × 10 = 350.\n\nThere are 350 committees.")
        '350'
    """
    if (fenced := _FENCED.search(text, max(0, len(text) - 300))) and is_value(fenced[1].strip()):
        return fenced[1].strip()
    return _assignments(text) or _said_again(text) or _explained(text)


def _assignments(text: str) -> str | None:
    solved = _SOLVED.search(text, max(0, len(text) - 1500))
    items = [peel(line.strip()[1:]) for line in solved[1].strip().split("\n")] if solved else []
    names = [match[1] for item in items if (match := _ASSIGNED.match(item)) and is_value(item)]
    return ", ".join(items) if items and len(set(names)) == len(items) else None


def _said_again(text: str) -> str | None:
    lines = [escape_money(line.strip()) for line in text[-2000:].split("\n") if line.strip()]
    if len(lines) < 2 or not lines[-1].endswith("."):
        return None
    said, computed = only_number(f"So {lines[-1]}"), _COMPUTED.search(lines[-2])
    if said is None or computed is None:
        return None
    return said if said.lstrip("\\$").replace(",", "") == computed[1].replace(",", "") else None


def _explained(text: str) -> str | None:
    first = _EXPLAINED.match(text)
    return peel(first[1]) if first and is_value(peel(first[1])) and not puts_right(text) else None
