"""Which chat a call continues: conversations as chains of digests, told apart by what models read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any


def digests(messages: Sequence[Mapping[str, Any]], start: str = "") -> list[str]:
    """A digest for each prefix of a conversation, the shortest first.

    Role, text, tool calls and the call that a tool answers count. Fields that clients add or leave out when
    they send a reply back (refusal, annotations, reasoning, an empty content) do not.

    Args:
        messages: As in a request.
        start: Digest of what stands before them.

    Raises:
        ValueError: A message is none.

    Example:
        >>> asked = [{"role": "user", "content": "2 + 2?"}]
        >>> sent_back = [*asked, {"role": "assistant", "content": "4", "refusal": None}]
        >>> replied = digests([{"role": "assistant", "content": "4"}], digests(asked)[-1])
        >>> digests(sent_back)[-1] == replied[0]
        True
    """
    found = []
    for message in messages:
        text = f"{start}{_canonical(message)}"
        start = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        found.append(start)
    return found


def text_of_content(content: Any) -> str:
    """The text of a message's content, which may be a list of parts.

    Example:
        >>> text_of_content([{"type": "text", "text": "2 + "}, {"type": "text", "text": "2?"}])
        '2 + 2?'
        >>> text_of_content(None)
        ''
    """
    if isinstance(content, list):
        return "".join(_part(part) for part in content)
    return content if isinstance(content, str) else ""


def _part(part: Any) -> str:
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        return str(part["text"])
    return json.dumps(part, sort_keys=True)  # a picture, say: told apart, never read


def _canonical(message: Any) -> str:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise ValueError("a message is an object with a role")
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise ValueError("tool_calls is a list")
    role = "system" if message["role"] == "developer" else message["role"]
    said = [role, text_of_content(message.get("content")).strip(), [_call(call) for call in calls]]
    return json.dumps([*said, message.get("tool_call_id")])


def _call(call: Any) -> list[Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return [json.dumps(call, sort_keys=True)]
    return [call.get("id"), function.get("name"), function.get("arguments")]
