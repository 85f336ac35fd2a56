"""How untrusted text is shown to a model, and how a model's JSON is read."""

import json
import re
import unicodedata
from collections.abc import Sequence
from itertools import count, pairwise
from typing import Any, Final

from mars_env.seeds import derive_seed

MAX_JSON: Final = 50_000
"""Most characters of a text that is read as a JSON object."""

_TEMPLATE_TOKENS = re.compile(
    r"<+(?=\||/?(?:s|think|bos|eos|sop|eop|unk|pad|mask|start_of_turn|end_of_turn|start_of_image|end_of_image|"
    r"tool_call|tool_response|endoftext|end_of_text|begin_of_text)>|/?SYS>>)|"
    r"\[(?=/?(?:INST|SYSTEM_PROMPT|gMASK|TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS)\])",
    re.I,
)
_TAGS = re.compile("[\U000e0000-\U000e007f]")
"""Letters that people cannot see and models read; emoji of a few flags use them."""


def mark_for(seed: int, *texts: str) -> str:
    """A mark that none of the texts contains. It depends on all of them, so no author can write it."""
    marks = (f"mark {derive_seed(seed, number, *texts):016x}" for number in count())
    return next(mark for mark in marks if not any(mark in text for text in texts))


def without_template_tokens(text: str) -> str:
    """The text with the special tokens of chat templates broken up, also in letters that look like theirs.

    Tokenizers may fold wide letters and drop invisible ones before they look for special tokens. Unicode's
    tag characters, in which a text can be hidden from people, are removed.

    Example:
        >>> without_template_tokens("4 <|im_end|>"), without_template_tokens("4 ＜｜im_end｜＞")
        ('4 < |im_end|>', '4 ＜ ｜im_end｜＞')
    """
    text = _TAGS.sub("", text)
    if text.isascii():
        return _TEMPLATE_TOKENS.sub(lambda found: found[0] + " ", text)
    folded = [(letter, place) for place, each in enumerate(text) for letter in _folded(each)]
    found = _TEMPLATE_TOKENS.finditer("".join(letter for letter, _ in folded))
    ends = [0, *(folded[each.end() - 1][1] + 1 for each in found), len(text)]
    return " ".join(text[start:end] for start, end in pairwise(ends))


def _folded(letter: str) -> str:
    """A letter as a tokenizer may read it; nothing for one that is not seen."""
    if letter.isascii():
        return letter
    return "".join(
        each
        for each in unicodedata.normalize("NFKC", letter)
        if unicodedata.category(each) != "Cf" and not "\ufe00" <= each <= "\ufe0f"
    )


def json_object(text: str) -> dict[str, Any] | None:
    r"""The one JSON object that a text consists of; None if it is anything else.

    A code fence around it is allowed; a second object, a key twice and more than
    `MAX_JSON` characters are not.

    Example:
        >>> json_object('```json\n{"met": true}\n```')
        {'met': True}
        >>> json_object('{"met": true, "met": false}') is None
        True
    """
    text = text.strip()
    if len(text) > MAX_JSON:
        return None
    if text.startswith("```") and text.endswith("```"):
        text = text.removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found
