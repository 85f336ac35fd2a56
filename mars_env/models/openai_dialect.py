"""The protocol of OpenAI-compatible servers: requests as JSON, answers as completions."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

from mars_env.checks import MAX_TOKENS, are_logprobs, token_ids, valid_count
from mars_env.checks import logprobs as checked_logprobs
from mars_env.gate import without_surrogates
from mars_env.models.requests import NO_LIMIT
from mars_env.net import UNREADABLE
from mars_env.text import brief, one_line
from mars_env.types import Completion, FinishReason, Message, Sampling

_MOST_ERROR = 65_536
"""So many bytes of an error are read for its words."""

NEUTRAL: Mapping[str, Any] = {
    "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0,
    "frequency_penalty": 0.0, "presence_penalty": 0.0,
}  # fmt: skip
"""Sampling from all tokens, as the policy gives them. What a request leaves out, vLLM takes from the
checkpoint's generation config."""

_BIASING = (
    "allowed_token_ids", "bad_words", "guided_choice", "guided_grammar", "guided_json", "guided_regex",
    "logit_bias", "min_tokens", "response_format", "structured_outputs", "thinking_token_budget",
    "use_beam_search",
)  # fmt: skip


def biasing_fields(fields: Mapping[str, Any]) -> list[str]:
    """The fields of a request by which tokens are sampled from another distribution than the policy's.

    The temperature is not one of them: a trainer divides its logits by it.
    """
    return [name for name, value in fields.items() if value is not None and _is_biasing(name, value)]


def _is_biasing(name: str, value: Any) -> bool:
    if name == "top_k":
        return bool(value > 0)
    if name == "tool_choice":
        return value not in ("auto", "none")
    if name in NEUTRAL:
        return name != "temperature" and bool(value != NEUTRAL[name])
    return name in _BIASING and bool(value) and value != {"type": "text"}


@lru_cache(maxsize=256)
def sampling_fields(n: int, sampling: Sampling, chat: bool, exact: bool, limit_field: str) -> str:
    """The sampling fields of a request except the seed, as JSON; cached, since many requests share them."""
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
    """Chat messages without any fields that servers may not know."""
    names = ("role", "content", "tool_calls", "tool_call_id")
    return json.dumps([{name: m[name] for name in names if name in m} for m in messages])


def keeps_logprobs(sampling: Sampling, *, processed: bool) -> bool:
    """Whether a server's log-probabilities are those of the distribution that is sampled from.

    `processed`: the server computes them after the temperature, top-p and top-k. A `top_k` below 0 means all.
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
    biased: bool = False,
) -> list[Completion]:
    """Completions of a server's answer, in the order of their indices; more than `n` are cut off.

    For `processed` see `keeps_logprobs`, for `biased` `biasing_fields`; `context` is what the server's model
    can hold, where that is known. Any error of `UNREADABLE`: the answer is malformed, or was broken off.
    """
    answer = json.loads(payload)
    choices = answer["choices"][:n]
    if not choices:
        raise ValueError("it holds no choices")
    if len(choices) > 1:
        choices.sort(key=lambda choice: int(choice.get("index") or 0))
    usage = answer["usage"] if isinstance(answer.get("usage"), dict) else {}
    texts = [
        message_text({"content": choice["text"]} if choice.get("message") is None else choice["message"])
        for choice in choices
    ]
    prompt_tokens = _tokens(usage, "prompt_tokens")
    sampled = _sampled(usage, prompt_tokens)
    counts = _shares(sampled, texts)
    faithful = keeps_logprobs(sampling, processed=processed) and not biased
    reasons = [_finish_reason(_ending(choice)) for choice in choices]
    own_limits = "mars_env" in answer  # a team's (`mars_env.serving`): it ignores those of the request
    cut = not own_limits and _cut_by_context(
        prompt_tokens, sampled, reasons.count("length"), sampling, context
    )
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


def _ending(choice: Mapping[str, Any]) -> object:
    """The server's word for why a choice ended; OpenAI gives a refusal instead of content, with "stop"."""
    refused = (choice.get("message") or {}).get("refusal") and not choice["message"].get("content")
    return "refusal" if refused else choice.get("finish_reason")


def _finish_reason(word: object) -> FinishReason:
    """Why a choice ended; a ValueError for a word that is not known: half an answer is never used."""
    reason = _FINISH_REASONS.get(str(word).lower().partition(":")[0].strip())
    if reason is None:
        advice = "a word for a good end belongs into the list in mars_env.models.openai_dialect"
        raise ValueError(f"the server broke the completion off: finish_reason {brief(word)}; {advice}")
    return reason


def _cut_by_context(prompt: int, sampled: int, cut: int, sampling: Sampling, context: int | None) -> bool:
    """Whether the context cut choices off: they all have one prompt, and so the same room.

    Either the prompt leaves too little, or fewer tokens were sampled than all `cut` choices have at their own
    limit. A request without a limit leaves only the context.
    """
    if context is not None and prompt:
        return bool(prompt + sampling.max_tokens > context)
    return sampling.max_tokens == NO_LIMIT or bool(0 < sampled < cut * sampling.max_tokens)


def is_too_long(status: int, payload: bytes) -> bool:
    """Whether a server refuses a request because prompt and limit exceed the model's context."""
    words = f"{_kind(payload)} {error_text(payload)}".lower()
    return status in (400, 413, 422) and bool(_TOO_LONG.search(words))


def is_filtered(payload: bytes) -> bool:
    """Whether a server's content filter refuses a request, in the words of Azure, OpenAI and DashScope."""
    return bool(_FILTERED.search(_kind(payload)))


_FILTERED = re.compile(r"\b(content_filter|content_policy_violation|invalid_prompt|data_inspection_failed)\b")


def _kind(payload: bytes) -> str:
    error = _error(payload)
    return f"{error.get('code')} {error.get('type')}" if isinstance(error, dict) else ""


def _error(payload: str | bytes) -> Any:
    try:
        answer = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    return answer.get("error", answer) if isinstance(answer, dict) else None


_TOO_LONG = re.compile(
    r"context[ _-]?(length|size|window|limit)|maximum model length|max_model_len|"
    r"max_tokens must be at least 1, got 0|"  # vLLM, of a prompt that is as long as the context
    r"(prompt|input) is too long|too many tokens|"
    r"`inputs`? tokens \+ `max_new_tokens` must be|`inputs` must have less than|"  # TGI, Together
    r"(prompt|input) token count|maximum prompt length|exceeded model token limit|"  # Gemini, xAI, Kimi
    r"range of input length should be"  # DashScope
)


def context_of(payload: bytes, model: str) -> int | None:
    """A model's context length from a server's list of models; vLLM gives an adapter's at its ``parent``."""
    try:
        listed = json.loads(payload)["data"]
        [entry] = [one for one in listed if one.get("id") == model]
        bases = [one for one in listed if one.get("id") == (entry.get("parent") or model)]
        names = ("max_model_len", "max_context_length", "context_length")
        lengths = [one.get(name) for one in (entry, *bases) for name in names]
    except UNREADABLE:
        return None
    return next((value for value in lengths if type(value) is int and value > 0), None)


def message_text(message: Mapping[str, Any]) -> str:
    """The text of a message, with thinking and calls of tools that the server separates from it.

    Content may be a list of parts. Calls are written as Hermes and Qwen do, JSON in ``<tool_call>``. Lone
    surrogates become U+FFFD.

    Example:
        >>> message_text({"content": "4", "reasoning": "2 + 2"})
        '<think>2 + 2</think>4'
    """
    content, thinking = message.get("content"), message.get("reasoning") or message.get("reasoning_content")
    if isinstance(content, list):
        thoughts = [_text_of(item) for item in content if item.get("type") in ("thinking", "reasoning")]
        texts = [_text_of(item) for item in content if item.get("type") not in ("thinking", "reasoning")]
        content, thinking = "".join(texts) if texts else None, thinking or "".join(thoughts)
    if not isinstance(content, str | None) or not isinstance(thinking, str | None):
        raise TypeError("the content is not a string")
    called = [_call(call.get("function") or {}) for call in message.get("tool_calls") or ()]
    if called:
        content = "\n".join([*([content] if content else []), *called])
    if thinking:
        content = f"<think>{thinking}" + ("" if content is None else f"</think>{content}")
    return without_surrogates(content or "")


def _call(function: Mapping[str, Any]) -> str:
    arguments = function.get("arguments") or "{}"
    with suppress(ValueError, TypeError, RecursionError):
        arguments = json.loads(arguments)
    # "</" would end the tag inside of an argument.
    written = json.dumps({"name": function.get("name"), "arguments": arguments}).replace("</", "<\\/")
    return f"<tool_call>\n{written}\n</tool_call>"


def _text_of(item: Mapping[str, Any]) -> str:
    text = next((item[name] for name in ("text", "thinking", "summary") if item.get(name) is not None), None)
    if isinstance(text, list):
        return "".join(map(_text_of, text))
    if not isinstance(text, str):
        raise TypeError("an item of the content is not a string")
    return text


def _logprobs(field: Mapping[str, Any] | None) -> tuple[float, ...]:
    """Both forms: a chat's entries, and a text completion's numbers; none if one is no log-probability."""
    if not field:
        return ()
    entries = field.get("content")
    values = [entry["logprob"] for entry in entries] if entries else field.get("token_logprobs") or ()
    numbers = [value for value in values if type(value) in (float, int)]
    return () if None in values or not are_logprobs(numbers) else checked_logprobs(values)


def _tokens(usage: Mapping[str, Any], name: str) -> int:
    """A count from the server, which may write 3.0; 0 if it gives none."""
    count = _whole(usage.get(name))
    return 0 if count is None else valid_count(count)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _sampled(usage: Mapping[str, Any], prompt: int) -> int:
    """The tokens that were sampled, with the thinking, which Gemini and xAI count apart."""
    sampled, total = _tokens(usage, "completion_tokens"), _whole(usage.get("total_tokens"))
    return max(sampled, total - prompt) if prompt and type(total) is int and total < MAX_TOKENS else sampled


def _shares(total: int, texts: Sequence[str]) -> list[int]:
    """Divide a count in proportion to the lengths of texts; the sum is kept."""
    if len(texts) == 1:
        return [total]
    lengths = list(accumulate(len(text) + 1 for text in texts))
    ends = [round(total * length / lengths[-1]) for length in lengths]
    return [end - begin for begin, end in pairwise([0, *ends])]


def embedded_error(payload: bytes) -> tuple[int, bytes] | None:
    """Status (or 500) and body of an error in an answer of status 200, as proxies such as OpenRouter send."""
    try:
        answer = json.loads(payload)
        error = answer.get("error") or next(one["error"] for one in answer["choices"] if one.get("error"))
        code = str(error.get("code") if isinstance(error, dict) else None)
        return int(code) if re.fullmatch("[45][0-9]{2}", code) else 500, json.dumps({"error": error}).encode()
    except (*UNREADABLE, StopIteration):
        return None


def error_text(payload: bytes, mask: Callable[[str], str] = str) -> str:
    """What a server says about an error, in 300 characters of one line; `mask` removes secrets first."""
    text = payload[:_MOST_ERROR].decode("utf-8", "replace")
    if (error := _error(text)) is not None:
        text = str(error["message"] if isinstance(error, dict) and "message" in error else error)
    return one_line(mask(" ".join(mask(text).split())), 300) or "no explanation"


def base_of(url: str) -> str:
    """An endpoint's address from that of one of its requests, without a query."""
    return url.partition("?")[0].removesuffix("/completions").removesuffix("/chat")


def retry_after(header: str | None) -> float:
    """Seconds to wait, from a number or a date; at most two minutes."""
    if not header:
        return 0.0
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return min(seconds, 120.0) if seconds > 0 else 0.0
