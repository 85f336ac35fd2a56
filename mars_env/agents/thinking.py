"""Thinking blocks: what a model writes for itself, and no other agent sees."""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated

from pydantic import BaseModel, Field


class Thinking(BaseModel, frozen=True, extra="forbid"):
    """How a model marks its thinking: the tags, and whether the chat template has `opened` the block.

    A completion then starts inside of it; one that is cut off there is all thinking.
    """

    opening: Annotated[str, Field(min_length=1)] = "<think>"
    closing: Annotated[str, Field(min_length=1)] = "</think>"
    opened: bool = False

    def visible(self, text: str) -> str:
        r"""The text without its thinking blocks; a text without tags is unchanged.

        A block that is not closed extends to the end: nothing in it counts as an answer. A closing tag
        without an opening one ends a block that the template opened.

        Example:
            >>> Thinking().visible("<think>2 + 2 ...</think>\n\nIt is 4. <think>Or is it")
            'It is 4.'
        """
        visible: list[str] = []
        inside, begin, has_tags = self.opened, 0, self.opened
        for tag in _tags(self.opening, self.closing).finditer(text):
            has_tags = True
            if tag[0] == self.closing:
                if not inside:  # everything before it was thinking
                    visible.clear()
                inside, begin = False, tag.end()
            elif not inside:
                visible.append(text[begin : tag.start()])
                inside = True
        if not inside:
            visible.append(text[begin:])
        return "".join(visible).strip() if has_tags else text


@lru_cache(maxsize=16)
def _tags(opening: str, closing: str) -> re.Pattern[str]:
    return re.compile(f"{re.escape(opening)}|{re.escape(closing)}")


THINKING = Thinking()
"""As Qwen3 and DeepSeek R1 mark it."""

THINKING_MODES: Mapping[str, Thinking | None] = MappingProxyType(
    {"tags": THINKING, "opened": Thinking(opened=True), "off": None}
)
"""How a specification or a setting says it: tagged, opened by the chat template, or not marked at all."""
