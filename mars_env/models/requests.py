"""What a model is asked: the forms of a prompt, the sampling, and the room that its context leaves."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from mars_env.errors import ConfigError, ContextError
from mars_env.types import Completion, FinishReason, Message, Prompt, Sampling

NO_LIMIT = sys.maxsize
"""`max_tokens` of a request that sets none: only the context can cut its completions off."""


def is_token_ids(prompt: Prompt) -> TypeGuard[Sequence[int]]:
    """Whether a prompt is a sequence of token ids."""
    return not isinstance(prompt, str) and len(prompt) > 0 and not isinstance(prompt[0], Mapping)


def is_messages(prompt: Prompt) -> TypeGuard[Sequence[Message]]:
    """Whether a prompt is a sequence of chat messages."""
    return not isinstance(prompt, str) and len(prompt) > 0 and isinstance(prompt[0], Mapping)


def check_request(n: int, sampling: Sampling) -> None:
    """Reject a request that makes no sense, by a `ConfigError` that is the same for every model."""
    if n < 1:
        raise ConfigError(f"n must be at least 1, got {n}")
    if sampling.max_tokens < 1:
        raise ConfigError(f"max_tokens must be at least 1, got {sampling.max_tokens}")
    if sampling.overflow not in ("check", "unknown", "refuse"):
        raise ConfigError(f"overflow is 'check', 'unknown' or 'refuse', got {sampling.overflow!r}")
    if sampling.temperature < 0:
        raise ConfigError(f"temperature must be at least 0, got {sampling.temperature}")
    if not 0 < sampling.top_p <= 1:
        raise ConfigError(f"top_p must lie in (0, 1], got {sampling.top_p}")
    if sampling.top_k < 0:
        raise ConfigError(f"top_k must be at least 0 (0 means all tokens), got {sampling.top_k}")
    if type(sampling.stop) is not tuple or not all(sampling.stop):
        raise ConfigError(f"stop must be a tuple of strings that are not empty, got {sampling.stop!r}")


def plain_chat(messages: Sequence[Message]) -> str:
    r"""Render chat messages for a model that has no chat template.

    Example:
        >>> plain_chat([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}])
        'System: Be brief.\n\nUser: 2 + 2?\n\nAssistant:'
    """
    parts = [f"{message['role'].capitalize()}: {message['content']}" for message in messages]
    return "\n\n".join([*parts, "Assistant:"])


def prompt_text(prompt: Prompt) -> str:
    """A prompt as one string, for scripts and logs; token ids are written as numbers."""
    if isinstance(prompt, str):
        return prompt
    if is_token_ids(prompt):
        return " ".join(map(str, prompt))
    return plain_chat(prompt) if is_messages(prompt) else ""


def room_for(name: str, prompt_tokens: int, sampling: Sampling, context: int) -> int:
    """Tokens that may be sampled after a prompt: the agent's limit, or what the context leaves; at least 0.

    Raises:
        ContextError: There is less room than the limit, and ``Sampling.overflow`` rejects that.
    """
    room = max(0, context - prompt_tokens)
    if room < sampling.max_tokens and sampling.overflow == "refuse":
        raise ContextError(
            f"{name}: a prompt of {prompt_tokens} tokens leaves room for {room} of {sampling.max_tokens} in "
            f'a context of {context}: raise the context, lower max_tokens, or set overflow="unknown"'
        )
    return min(sampling.max_tokens, room)


def finish_reason(reason: str, tokens: int, sampling: Sampling) -> FinishReason:
    """Why a completion ended, given the engine's reason: ``"length"`` below its own limit is the context."""
    if reason != "length":
        return "stop"
    return "length" if tokens >= sampling.max_tokens else "context"


def without_room(prompt_ids: Sequence[int], n: int, sampling: Sampling) -> list[Completion]:
    """N samples of a prompt that fills the context: empty, and cut off by the context."""
    ids = tuple(prompt_ids)
    empty = Completion(
        "", "context", prompt_ids=ids, temperature=sampling.temperature, prompt_tokens=len(ids)
    )
    return [empty] * n
