"""The protocol of OpenAI-compatible servers: requests as JSON, answers as completions."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

from mars_env.agents.context import NO_LIMIT
from mars_env.checks import count, token_ids
from mars_env.checks import logprobs as checked_logprobs
from mars_env.text import one_line
from mars_env.types import Completion, FinishReason, Message, Sampling

_MOST_ERROR = 65_536
"""So many bytes of an error are read for its words."""


@lru_cache(maxsize=256)
def sampling_fields(n: int, sampling: Sampling, chat: bool, exact: bool, limit_field: str) -> str:
    """The sampling fields of a request except the seed: the same text for many requests, so it is cached.

    Args:
        n: How many samples.
        sampling: How to sample; without its seed, which would make every call a new one.
        chat: Whether the request is a chat.
        exact: Whether token ids and log-probabilities are asked for.
        limit_field: Name of the field that limits the tokens.
    """
    fields: dict[str, Any] = {
        "n": n,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        limit_field: sampling.max_tokens,
    }
    if sampling.stop:
        fields["stop"] = list(sampling.stop)
    if sampling.top_k or exact:
        fields["top_k"] = sampling.top_k
    if exact:
        fields |= {"return_token_ids": True, "logprobs": True if chat else 1}
    return json.dumps(fields)[1:-1]


def messages_json(messages: Sequence[Message]) -> str:
    """Chat messages without any other fields."""
    return json.dumps([{"role": m["role"], "content": m["content"]} for m in messages])


def keeps_logprobs(sampling: Sampling, *, processed: bool) -> bool:
    """Whether a server's log-probabilities are those of the distribution that is sampled from.

    Args:
        sampling: How is sampled. To servers, a `top_k` below 0 means all tokens, as 0 does.
        processed: Whether the server computes them after the temperature, top-p and top-k.

    Example:
        >>> keeps_logprobs(Sampling(temperature=0.6), processed=False)
        False
    """
    return processed or (sampling.temperature in (0, 1) and sampling.top_p == 1 and sampling.top_k <= 0)


def completions_of(
    payload: bytes,
    n: int,
    sampling: Sampling,
    *,
    processed: bool,
    version: int,
    context: int | None = None,
) -> list[Completion]:
    """Completions of a server's answer, in the order of their indices.

    Args:
        payload: The answer's body.
        n: How many were asked for; more are cut off.
        sampling: How they were asked for.
        processed: Whether the server's log-probabilities are those of the distribution sampled from.
        version: Version of the weights.
        context: What the server's model can hold, where that is known.

    Raises:
        ValueError: It holds no choices, the server broke a completion off, the reason why one ended is not
            known, or a count, a token id or a log-probability is invalid. Other exceptions that a malformed
            answer raises (KeyError, TypeError ...) mean the same.
    """
    answer = json.loads(payload)
    choices = answer["choices"][:n]
    if not choices:
        raise ValueError("it holds no choices")
    if len(choices) > 1:
        choices.sort(key=_index)
    usage = answer.get("usage") or {}
    texts = [_text(choice) for choice in choices]
    sampled, prompt_tokens = (_tokens(usage, name) for name in ("completion_tokens", "prompt_tokens"))
    counts = _shares(sampled, texts)
    faithful = keeps_logprobs(sampling, processed=processed)
    reasons = [_finish_reason(choice.get("finish_reason")) for choice in choices]
    cut = _cut_by_context(usage, reasons.count("length"), sampling, context)
    completions = []
    for choice, text, share, reason in zip(choices, texts, counts, reasons, strict=True):
        # vLLM puts a chat's prompt ids beside the choices, and a text completion's into each choice.
        prompt_ids = token_ids(choice.get("prompt_token_ids") or answer.get("prompt_token_ids") or ())
        ids = token_ids(choice.get("token_ids") or ())
        logprobs = _logprobs(choice.get("logprobs")) if ids else ()
        if reason == "length" and (len(ids) < sampling.max_tokens if ids else cut):
            reason = "context"
        if logprobs and len(logprobs) != len(ids):
            raise ValueError(f"{len(logprobs)} log-probabilities of {len(ids)} tokens")
        completions.append(
            Completion(
                text=text,
                finish_reason=reason,
                prompt_ids=prompt_ids,
                token_ids=ids,
                logprobs=logprobs if faithful else (),
                temperature=sampling.temperature,
                versions=((version, len(ids)),) if ids else (),
                prompt_tokens=len(prompt_ids) or prompt_tokens,
                completion_tokens=len(ids) or share,
            )
        )
    return completions


_WORDS: Mapping[FinishReason, str] = {
    "stop": "stop stop_sequence end_turn eos eos_token complete tool_calls tool_use function_call repetition "
    "none null",
    "length": "length max_tokens",
    "context": "model_length model_context_window_exceeded",
    "content_filter": "content_filter content_filtered safety sensitive refusal recitation blocklist "
    "prohibited_content spii guardrail_intervened error_toxic",
}
"""The words of OpenAI, vLLM, TGI, Together, watsonx, Cohere, Mistral, Anthropic, Bedrock, Gemini and GLM."""

_FINISH_REASONS = {word: reason for reason, words in _WORDS.items() for word in words.split()} | {"": "stop"}


def _finish_reason(told: object) -> FinishReason:
    """Why a choice ended, in the server's word; a server that tells nothing is believed to have finished.

    Raises:
        ValueError: It was broken off, or the word is not known: half an answer is never used.

    Example:
        >>> [_finish_reason(word) for word in ("stop", "MAX_TOKENS", "content_filter: RECITATION", None)]
        ['stop', 'length', 'content_filter', 'stop']
    """
    reason = _FINISH_REASONS.get(str(told).lower().partition(":")[0].strip())
    if reason is None:
        raise ValueError(f"the server broke the completion off: finish_reason {told!r}")
    return reason


def _cut_by_context(usage: Mapping[str, Any], cut: int, sampling: Sampling, context: int | None) -> bool:
    """Whether the context cut choices off: they all have one prompt, and so the same room.

    Either the prompt is known to leave too little, or fewer tokens were sampled than all `cut` choices that
    were cut off at their own limit would have. A request without a limit leaves only the context.
    """
    prompt, sampled = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    if context is not None and prompt:
        return bool(prompt + sampling.max_tokens > context)
    return sampling.max_tokens == NO_LIMIT or bool(0 < sampled < cut * sampling.max_tokens)


def is_too_long(status: int, payload: bytes) -> bool:
    """Whether a server refuses a request because prompt and limit exceed the model's context.

    Example:
        >>> is_too_long(400, b'{"error": {"message": "The maximum context length is 4096 tokens."}}')
        True
        >>> is_too_long(400, b'{"error": {"message": "no such model", "code": 400}}')
        False
    """
    if status not in (400, 413):
        return False
    try:
        error = json.loads(payload)
        error = error.get("error", error)
        kind = f"{error.get('code')} {error.get('type')}" if isinstance(error, dict) else ""
    except (ValueError, AttributeError, RecursionError):
        kind = ""
    return bool(_TOO_LONG.search(f"{kind} {error_text(payload)}".lower()))


_TOO_LONG = re.compile(
    r"context[ _-](length|size|window)|maximum model length|max_model_len|"
    r"(prompt|input) is too long|too many tokens"
)


def context_of(payload: bytes, model: str) -> int | None:
    """A model's context length from a server's list of models (vLLM, SGLang and others); else None.

    Example:
        >>> context_of(b'{"data": [{"id": "qwen3", "max_model_len": 40960}]}', "qwen3")
        40960
        >>> context_of(b'{"data": [{"id": "qwen3"}]}', "qwen3") is context_of(b"not JSON", "qwen3") is None
        True
    """
    try:
        listed = json.loads(payload)["data"]
        [entry] = [one for one in listed if one.get("id") == model]
        told = [entry.get(name) for name in ("max_model_len", "max_context_length", "context_length")]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return next((value for value in told if type(value) is int and value > 0), None)


def _index(choice: Mapping[str, Any]) -> int:
    return int(choice.get("index") or 0)


def _text(choice: Mapping[str, Any]) -> str:
    message = choice.get("message")
    return text_of({"content": choice["text"]} if message is None else message)


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message; where the server parts the thinking from it, put together again.

    Raises:
        TypeError: The content is not a text.

    Example:
        >>> text_of({"content": "4", "reasoning": "2 + 2"})
        '<think>2 + 2</think>4'
    """
    content, thinking = message.get("content"), message.get("reasoning") or message.get("reasoning_content")
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
    return checked_logprobs(values) if None not in values else ()


def _tokens(usage: Mapping[str, Any], name: str) -> int:
    """A count from the server; 0 if it gives none."""
    told = usage.get(name)
    return 0 if told is None else count(told)


def _shares(total: int, texts: Sequence[str]) -> list[int]:
    """Divide a count in proportion to the lengths of texts; the sum is kept.

    Example:
        >>> _shares(10, ["aaaaa", "aa"]), _shares(3, ["", ""])
        ([7, 3], [2, 1])
    """
    if len(texts) == 1:
        return [total]
    lengths = list(accumulate(len(text) + 1 for text in texts))
    ends = [round(total * length / lengths[-1]) for length in lengths]
    return [end - begin for begin, end in pairwise([0, *ends])]


def error_text(payload: bytes, mask: Callable[[str], str] = str) -> str:
    """What a server says about an error, in at most 300 characters of one line.

    Args:
        payload: The answer's body; of a long one, the beginning.
        mask: Removes secrets from the text before it is cut.
    """
    text = payload[:_MOST_ERROR].decode("utf-8", "replace")
    try:
        error = json.loads(text)
        error = error.get("error", error)
        text = str(error["message"] if isinstance(error, dict) and "message" in error else error)
    except (ValueError, AttributeError, RecursionError):  # not JSON, or no object: the text itself is shown
        pass
    return one_line(mask(" ".join(mask(text).split())), 300) or "no explanation"


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
