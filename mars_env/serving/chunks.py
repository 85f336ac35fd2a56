"""Answers as streams of server-sent events."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp import web

EVENT_STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}


async def write_answer(response: web.StreamResponse, answer: Mapping[str, Any], *, with_usage: bool) -> None:
    """Stream a whole chat completion."""
    for chunk in chunks_of(answer, with_usage=with_usage):
        await response.write(event(chunk))
    await response.write(event("[DONE]"))


def event(data: Mapping[str, Any] | str) -> bytes:
    """One server-sent event."""
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def chunks_of(answer: Mapping[str, Any], *, with_usage: bool) -> Iterator[dict[str, Any]]:
    """A whole chat completion as the chunks of a stream: for each choice its message, then why it ended.

    Example:
        >>> choice = {"index": 0, "message": {"content": "4"}, "finish_reason": "stop"}
        >>> for chunk in chunks_of({"id": "a", "choices": [choice]}, with_usage=False):
        ...     print(chunk["choices"][0]["delta"], chunk["choices"][0]["finish_reason"])
        {'content': '4'} None
        {} stop
    """
    head = {name: value for name, value in answer.items() if name not in ("choices", "usage")}
    head["object"] = "chat.completion.chunk"
    for choice in answer["choices"]:
        delta = dict(choice["message"])
        if delta.get("tool_calls"):
            delta["tool_calls"] = [{"index": i, **call} for i, call in enumerate(delta["tool_calls"])]
        extras = {name: value for name, value in choice.items() if name != "message"}
        yield {**head, "choices": [{**extras, "delta": delta, "finish_reason": None}]}
        last = {"index": choice.get("index", 0), "delta": {}, "finish_reason": choice.get("finish_reason")}
        yield {**head, "choices": [last]}
    if with_usage:
        yield {**head, "choices": [], "usage": answer.get("usage")}
