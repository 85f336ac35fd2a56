"""The gate of a tokenizer: the chat template alone writes control tokens, contents are ordinary text.

Contents are cut inside of each control token that they spell out, the template is rendered around them, and
what lies between two cuts is encoded separately. A prompt without such a spelling has exactly the ids of the
template's plain rendering.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from mars_env.gate import Spellings, map_message, map_strings
from mars_env.types import Message

Render = Callable[[list[Message], list[Any]], str]


class TokenGate:
    """Encodes what a template makes of messages whose contents are data; made by `gate_of`."""

    def __init__(self, tokenizer: Any) -> None:
        added = _added_tokens(tokenizer)
        normalizer: Any = getattr(getattr(tokenizer, "backend_tokenizer", None), "normalizer", None)
        self._normalizes = normalizer is not None and any(getattr(token, "normalized", 0) for token in added)
        self._normalized: Callable[[str], str] = normalizer.normalize_str if self._normalizes else str
        names = {*map(str, added), *(self._normalized(str(token)) for token in added)}
        self.tokens = Spellings(name for name in names if len(name) > 1 and name.strip(" \t\r\n▁"))
        self._edges = {name[end] for name in self.tokens.names for end in (0, -1)}
        self._heads = {name[:end] for name in self.tokens.names for end in range(1, len(name))}
        self._tails = {name[begin:] for name in self.tokens.names for begin in range(1, len(name))}
        self._reach = 4 * self.tokens.longest  # a normalizer may shorten what it reads

    def is_plain(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> bool:
        """Whether no text can be a part of a control token, so that nothing has to be rendered twice."""
        return not self._normalizes and not any(map(self._is_part, _texts(messages, tools)))

    def _is_part(self, text: str) -> bool:
        if len(text) < self.tokens.longest and any(text in name for name in self.tokens.names):
            return bool(text)
        if not any(edge in text for edge in self._edges):
            return False
        inner, lengths = text.strip(), range(1, self.tokens.longest)
        open_ended = any(inner[-size:] in self._heads or inner[:size] in self._tails for size in lengths)
        return open_ended or bool(self.tokens.starts(text))

    def runs(self, render: Render, messages: Sequence[Message], tools: Sequence[Any] = ()) -> list[str]:
        """The rendered text in runs; encoded separately, they hold no control token but the template's."""
        messages, tools = list(messages), list(tools)
        if self.is_plain(messages, tools):
            return [render(messages, tools)]
        cut = _unused_character("".join(_texts(messages, tools)))
        cut_text = partial(self._cut, cut=cut)
        data = [_with_ends(map_message(message, cut_text), cut) for message in messages]
        text = render(data, map_strings(tools, cut_text))
        runs = self._joined(text.split(cut))
        return runs if len(runs) > 1 else [render(messages, tools)]

    def _cut(self, text: str, cut: str) -> str:
        """A text with cuts inside of all control tokens; everywhere if only the normalizer makes some."""
        parts = self.tokens.parts(text)
        if self._normalizes:
            parts = [cut.join(piece) if self._count(piece) else piece for piece in parts]
        return cut.join(parts)

    def _joined(self, parts: Sequence[str]) -> list[str]:
        runs = [parts[0]]
        for piece in parts[1:]:
            before, after = runs[-1][-self._reach :], piece[: self._reach]
            if self._count(before + after) > self._count(before) + self._count(after):
                runs.append(piece)
            else:
                runs[-1] += piece
        return runs

    def _count(self, text: str) -> int:
        return len(self.tokens.starts(self._normalized(text)))


_GATES: WeakKeyDictionary[Any, tuple[int, TokenGate]] = WeakKeyDictionary()


def gate_of(tokenizer: Any) -> TokenGate:
    """The gate of a tokenizer, made once; again if tokens were added."""
    size = len(tokenizer) if hasattr(tokenizer, "__len__") else 0
    entry = _GATES.get(tokenizer)
    if entry is None or entry[0] != size:
        entry = _GATES[tokenizer] = size, TokenGate(tokenizer)
    return entry[1]


def encode_runs(tokenizer: Any, runs: Sequence[str], *, special: bool = False) -> list[int]:
    """The token ids of runs; `special` adds what the tokenizer writes at a text's beginning."""
    ids: list[int] = []
    for place, run in enumerate(runs):
        ids += tokenizer.encode(run, add_special_tokens=special and not place)
    return ids


def _added_tokens(tokenizer: Any) -> list[Any]:
    """Added tokens; none of a tokenizer that does not list them: Mistral's own reads contents as text."""
    added = getattr(tokenizer, "added_tokens_decoder", None)
    return list(added.values()) if isinstance(added, Mapping) else []


def _texts(messages: Sequence[Message], tools: Sequence[Any]) -> list[str]:
    texts: list[str] = []

    def note(text: str) -> str:
        texts.append(text)
        return text

    for message in messages:
        map_message(message, note)
    map_strings(list(tools), note)
    return texts


def _with_ends(message: Message, cut: str) -> Message:
    """A message whose content is cut at both ends, inside of the white space that a template may strip."""
    content = message.get("content")
    if not isinstance(content, str) or not (inner := content.strip()):
        return message
    before, _, after = content.partition(inner)
    return {**message, "content": f"{before}{cut}{inner}{cut}{after}"}


def _unused_character(text: str) -> str:
    used = set(text)
    return next(character for character in map(chr, range(0x10FFFF, 0, -1)) if character not in used)
