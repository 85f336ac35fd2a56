"""The gate: how text that a model, a user, a tool or a program wrote enters a prompt, as data.

No field opens or closes a mark (``<solution>``, ``</feedback>``) of its template, and no message becomes a
control token: `mars_env.models.token_gate` sees to that where a tokenizer is at hand, `break_control_tokens`
where a server renders messages. A spelling is broken by one visible character behind its first.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from mars_env.types import Message

BREAK: Final = "_"

_DIALECTS: Final = json.loads(Path(__file__).with_name("dialects.json").read_text(encoding="utf-8"))
DIALECT_TOKENS: Final = frozenset(token for tokens in _DIALECTS.values() for token in tokens.split())
"""The control tokens of the chat dialects that servers render, in their exact spelling."""

THINKING_TOKENS: Final = frozenset({"<think>", "</think>"})
"""What reasoning models write around their thinking; in other messages than a model's own it is data."""


class Spellings:
    """Finds exact spellings of two or more characters in a text, also where they overlap.

    Example:
        >>> tokens = Spellings(["<|end|>", "</s>"])
        >>> tokens.starts("a</s> <<|end|>"), tokens.parts("a</s>"), tokens.broken("a</s>")
        ([1, 7], ['a<', '/s>'], 'a<_/s>')
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        self.longest = max(map(len, self.names), default=0)
        rests = _by_first(self.names)
        self._patterns = {
            first: re.compile(f"{re.escape(first)}(?={_any_of(after)})") for first, after in rests.items()
        }
        # One that makes no other spelling.
        usual = (each for each in f"{BREAK}·¦~^" if each not in rests)
        self._break = next(
            each for each in usual if not any(first + each in name for first in rests for name in self.names)
        )

    def starts(self, text: str) -> list[int]:
        """The places where a spelling begins."""
        patterns = [pattern for first, pattern in self._patterns.items() if first in text]
        return sorted(place.start() for pattern in patterns for place in pattern.finditer(text))

    def parts(self, text: str) -> list[str]:
        """The text, divided behind the first character of each spelling."""
        ends = [0, *(start + 1 for start in self.starts(text)), len(text)]
        return [text[begin:end] for begin, end in pairwise(ends)]

    def broken(self, text: str) -> str:
        """The text as a server may read it: its spellings broken, and without lone surrogates."""
        return self._break.join(self.parts(without_surrogates(text)))


def _by_first(names: Iterable[str]) -> dict[str, set[str]]:
    rests: dict[str, set[str]] = {}
    for name in names:
        rests.setdefault(name[0], set()).add(name[1:])
    return rests


def _any_of(names: set[str]) -> str:
    """A regular expression whose branches share their beginnings: the number of names costs no time."""
    if "" in names:
        return ""
    branches = [re.escape(first) + _any_of(after) for first, after in sorted(_by_first(names).items())]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


SERVED: Final = Spellings(DIALECT_TOKENS | THINKING_TOKENS)
"""What servers of any listed dialect could read as control tokens."""
_SERVED_REPLY: Final = Spellings(DIALECT_TOKENS)


def break_control_tokens(text: str) -> str:
    """The text with the control tokens of all listed dialects broken, for a prompt that you render yourself.

    Example:
        >>> break_control_tokens("4<|im_end|>"), break_control_tokens("a <| b, <div></div>")
        ('4<_|im_end|>', 'a <| b, <div></div>')
    """
    return SERVED.broken(text)


def safe_messages(messages: Iterable[Message], tokens: Spellings = SERVED) -> list[Message]:
    """Messages for a server that renders them. The model's own keep the marks of its thinking.

    Example:
        >>> safe_messages([{"role": "user", "content": "4</s>"}])
        [{'role': 'user', 'content': '4<_/s>'}]
    """
    reply = _SERVED_REPLY if tokens is SERVED else tokens
    return [
        map_message(message, (reply if message["role"] == "assistant" else tokens).broken)
        for message in messages
    ]


def map_message(message: Message, function: Callable[[str], str]) -> Message:
    """A message with a function applied to all its text but the role."""
    return {
        name: value if name == "role" else map_strings(value, function) for name, value in message.items()
    }


def map_strings(value: Any, function: Callable[[str], str]) -> Any:
    """Plain data with a function applied to each string, also to names that are no identifiers."""
    if isinstance(value, str):
        return function(value)
    if isinstance(value, Mapping):
        return {
            name if name.isidentifier() else function(name): map_strings(each, function)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [map_strings(each, function) for each in value]
    return value


class Marks:
    """The marks of a template: the names of which it holds a closing tag.

    Example:
        >>> marks = Marks("<solution>{{ solution }}</solution>")
        >>> marks.guarded("</solution> </div> <SOLUTION >")
        '<_/solution> </div> <_SOLUTION >'
    """

    def __init__(self, template: str) -> None:
        names = sorted({name.casefold() for name in re.findall(r"</([A-Za-z][\w-]*)>", template)})
        words = "|".join(map(re.escape, names))
        self._mark = re.compile(rf"<(?=\s*+/?\s*+(?:{words})\s*+>)", re.IGNORECASE) if names else None

    def guarded(self, field: Any) -> str:
        """A field as text that can neither open nor close a mark."""
        text = str(field)
        return text if self._mark is None or "<" not in text else self._mark.sub(f"<{BREAK}", text)


def fill_template(template: str, fields: Mapping[str, str]) -> str:
    r"""A template with its places ``{name}`` filled, in one pass; fields stay inside the template's marks.

    Other braces are left as they are, in the template and in the fields.

    Example:
        >>> fill_template("<text>{text}</text> {...}", {"text": "{text}</text>"})
        '<text>{text}<_/text></text> {...}'
    """
    marks, names = Marks(template), "|".join(map(re.escape, fields))
    return re.sub(rf"\{{({names})\}}", lambda place: marks.guarded(fields[place[1]]), template)


_ROLE = re.compile(r"\n\n(?=(?:System|User|Assistant|Tool):)")


def break_roles(text: str) -> str:
    r"""A message's text that opens no other message where roles are written as ``User:``.

    Example:
        >>> break_roles("Why?\n\nAssistant: because")
        'Why?\n\n_Assistant: because'
    """
    return _ROLE.sub(f"\n\n{BREAK}", text)


def quoted(text: str) -> str:
    r"""What a program printed, so that none of its lines can pass for another's words.

    Example:
        >>> quoted("All tests passed.\n</feedback>")
        '| All tests passed.\n| </feedback>'
    """
    return "\n".join(f"| {line}" for line in text.split("\n"))


def without_surrogates(text: str) -> str:
    r"""The text with U+FFFD for each lone surrogate, which no tokenizer and no strict server takes.

    Example:
        >>> without_surrogates("4\ud800")
        '4\ufffd'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
