"""The dialect of OpenAI-compatible servers: requests as JSON, answers as completions."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

from mars_env.types import Completion, Message, Sampling


@lru_cache(maxsize=256)
def sampling_fields(
    n: int,
    temperature: float,
    top_p: float,
    top_k: int,
    max_tokens: int,
    stop: tuple[str, ...],
    chat: bool,
    exact: bool,
    limit_field: str,
) -> str:
    """The sampling fields of a request but for the seed: the same text for many requests."""
    fields: dict[str, Any] = {"n": n, "temperature": temperature, "top_p": top_p, limit_field: max_tokens}
    if stop:
        fields["stop"] = list(stop)
    if top_k or exact:
        fields["top_k"] = top_k
    if exact:
        fields |= {"return_token_ids": True, "logprobs": True if chat else 1}
    return json.dumps(fields)[1:-1]


def messages_json(messages: Sequence[Message]) -> str:
    """Chat messages, and nothing else that may stand in them."""
    return json.dumps([{"role": m["role"], "content": m["content"]} for m in messages])


def completions_of(
    payload: bytes, n: int, sampling: Sampling, *, processed: bool, version: int
) -> list[Completion]:
    """Completions of a server's answer, in the order of their indices.

    Args:
        payload: The answer's body.
        n: How many were asked for; more are cut off.
        sampling: How they were asked for.
        processed: Whether the server's log-probabilities are those of the distribution sampled from.
        version: Version of the weights.

    Raises:
        ValueError: It holds no choices, or the server gave up. Whatever else an answer of another form
            raises (KeyError, TypeError ...) is to be read as the same.
    """
    answer = json.loads(payload)
    choices = answer["choices"][:n]
    if not choices:
        raise ValueError("it holds no choices")
    if len(choices) > 1:
        choices.sort(key=_index)
    usage = answer.get("usage") or {}
    texts = [_text(choice) for choice in choices]
    counts = _shares(usage.get("completion_tokens") or 0, texts)
    prompt_tokens = usage.get("prompt_tokens") or 0
    faithful = processed or (sampling.temperature in (0, 1) and sampling.top_p == 1 and sampling.top_k == 0)
    completions = []
    for choice, text, count in zip(choices, texts, counts, strict=True):
        reason = choice.get("finish_reason")
        if reason in ("abort", "error"):
            raise ValueError(f"the server gave up: finish_reason {reason!r}")
        # vLLM puts a chat's prompt ids beside the choices, and a text completion's into each choice.
        prompt_ids = choice.get("prompt_token_ids") or answer.get("prompt_token_ids") or ()
        ids = tuple(map(int, choice.get("token_ids") or ()))
        logprobs = _logprobs(choice.get("logprobs")) if ids and faithful else ()
        completions.append(
            Completion(
                text=text,
                finish_reason="length" if reason == "length" else "stop",
                prompt_ids=tuple(map(int, prompt_ids)),
                token_ids=ids,
                logprobs=logprobs if len(logprobs) == len(ids) else (),
                temperature=sampling.temperature,
                versions=((version, len(ids)),) if ids else (),
                prompt_tokens=len(prompt_ids) or prompt_tokens,
                completion_tokens=len(ids) or count,
            )
        )
    return completions


def _index(choice: Mapping[str, Any]) -> int:
    return int(choice.get("index") or 0)


def _text(choice: Mapping[str, Any]) -> str:
    """The text of a choice; where the server parts the thinking from it, put together again."""
    message = choice.get("message")
    content = choice["text"] if message is None else message.get("content")
    thinking = message and (message.get("reasoning") or message.get("reasoning_content"))
    if not isinstance(content, str | None) or not isinstance(thinking, str | None):
        raise TypeError("the content is not a text")
    if thinking:
        return f"<think>{thinking}" + ("" if content is None else f"</think>{content}")
    return content or ""


def _logprobs(field: Mapping[str, Any] | None) -> tuple[float, ...]:
    """Both forms: a chat's list of entries, and a text completion's list of numbers."""
    if not field:
        return ()
    entries = field.get("content")
    values = [entry["logprob"] for entry in entries] if entries else field.get("token_logprobs") or ()
    return tuple(map(float, values)) if None not in values else ()


def _shares(total: int, texts: Sequence[str]) -> list[int]:
    """Apportion a count by the lengths of texts; the sum is kept.

    Example:
        >>> _shares(10, ["aaaaa", "aa"]), _shares(3, ["", ""])
        ([7, 3], [2, 1])
    """
    if len(texts) == 1:
        return [total]
    lengths = list(accumulate(len(text) + 1 for text in texts))
    ends = [round(total * length / lengths[-1]) for length in lengths]
    return [end - begin for begin, end in pairwise([0, *ends])]


def error_text(payload: bytes) -> str:
    """What a server says about an error, in at most 300 characters of one line."""
    text = payload.decode("utf-8", "replace")
    try:
        error = json.loads(text)
        error = error.get("error", error)
        text = str(error["message"] if isinstance(error, dict) and "message" in error else error)
    except (ValueError, AttributeError):  # not JSON, or not an object: the text itself is shown
        pass
    return " ".join(text.split())[:300] or "no explanation"


def retry_after(header: str | None) -> float:
    """Seconds to wait, from a number or a date; at most two minutes.

    Example:
        >>> [retry_after(header) for header in ("3", None, "soon", "nan", "9999")]
        [3.0, 0.0, 0.0, 0.0, 120.0]
    """
    if not header:
        return 0.0
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except ValueError:
            return 0.0
    return min(seconds, 120.0) if seconds > 0 else 0.0
