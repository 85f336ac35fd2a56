"""A streamed chat completion, put together again as the answer that the server gives without streaming."""

import json
from collections.abc import Mapping
from typing import Any

EXTRAS = ("prompt_token_ids", "token_ids", "logprobs")
"""What is asked for to train on a completion, beside what a program asked for."""


EVENT_STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
"""Headers of an answer that is streamed."""


class ChatStream:
    """Collects the chunks of one answer; `answer` is what the server would have sent without streaming."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self.failed = False

    @property
    def whole(self) -> bool:
        """Whether every choice was brought to its end, and the server reported no error."""
        return not self.failed and bool(self._choices) and all(
            choice["finish_reason"] for choice in self._choices.values()
        )  # fmt: skip

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take one chunk; a malformed one raises KeyError, TypeError, ValueError or AttributeError."""
        self.failed |= "error" in chunk
        for name in ("id", "model", "created", "prompt_token_ids", "usage"):
            if chunk.get(name) is not None:
                self._head[name] = chunk[name]
        for part in chunk.get("choices") or ():
            choice = self._choices.setdefault(
                int(part.get("index") or 0),
                {"message": {"role": "assistant"}, "finish_reason": None, "token_ids": [], "logprobs": []},
            )
            choice["finish_reason"] = part.get("finish_reason") or choice["finish_reason"]
            choice["token_ids"] += part.get("token_ids") or ()
            choice["logprobs"] += (part.get("logprobs") or {}).get("content") or ()
            if part.get("prompt_token_ids"):
                choice["prompt_token_ids"] = part["prompt_token_ids"]
            _add_delta(choice["message"], part.get("delta") or {})

    def answer(self) -> dict[str, Any]:
        """What the server would have answered without streaming."""
        choices = [
            {**choice, "index": index, "logprobs": {"content": choice["logprobs"]}}
            for index, choice in sorted(self._choices.items())
        ]
        return {**self._head, "choices": choices}


def _add_delta(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for name in ("content", "reasoning", "reasoning_content"):
        if isinstance(delta.get(name), str):
            message[name] = message.get(name, "") + delta[name]
    for part in delta.get("tool_calls") or ():
        calls = message.setdefault("tool_calls", [])
        index = int(part.get("index") or 0)
        while len(calls) <= index < 1024:
            calls.append({"id": None, "type": "function", "function": {"name": "", "arguments": ""}})
        call, function = calls[index], part.get("function") or {}
        call["id"] = part.get("id") or call["id"]
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""


def asked_for(answer: Mapping[str, Any], *, logprobs: bool, token_ids: bool) -> dict[str, Any]:
    """An answer or a chunk without what the program did not ask for: token ids, log-probabilities."""
    dropped = {name for name in EXTRAS if not (logprobs if name == "logprobs" else token_ids)}
    shown = {name: value for name, value in answer.items() if name not in dropped}
    if isinstance(shown.get("choices"), list):
        shown["choices"] = [
            {name: value for name, value in choice.items() if name not in dropped}
            for choice in shown["choices"]
        ]
    return shown


def event(data: Mapping[str, Any] | str) -> bytes:
    """One server-sent event."""
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
