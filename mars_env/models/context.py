"""Prompts, limits and a model's context: how many tokens may be sampled, and what happens without room."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mars_env.errors import ContextError
from mars_env.types import Completion, FinishReason, Sampling

NO_LIMIT = sys.maxsize
"""`max_tokens` of a request that sets none: only the context can cut its completions off."""


def room_for(name: str, prompt_tokens: int, sampling: Sampling, context: int) -> int:
    """Tokens that may be sampled after a prompt: the agent's limit, or what the context leaves; at least 0.

    Args:
        name: The model's, for the message.
        prompt_tokens: Length of the prompt.
        sampling: Its `max_tokens` and `overflow` are used.
        context: Tokens of prompt and completion together that the model can hold.

    Raises:
        ContextError: There is less room than the limit, and the setting refuses that.

    Example:
        >>> room_for("m", 90, Sampling(max_tokens=24), 128), room_for("m", 120, Sampling(max_tokens=24), 128)
        (24, 8)
        >>> room_for("m", 120, Sampling(max_tokens=24, overflow="refuse"), 128)
        Traceback (most recent call last):
        ...
        mars_env.errors.ContextError: m: a prompt of 120 tokens leaves room for 8 of 24 in a context of 128: \
raise the context, lower max_tokens, or set overflow="unknown"
    """
    room = max(0, context - prompt_tokens)
    if room < sampling.max_tokens and sampling.overflow == "refuse":
        raise ContextError(
            f"{name}: a prompt of {prompt_tokens} tokens leaves room for {room} of {sampling.max_tokens} in "
            f'a context of {context}: raise the context, lower max_tokens, or set overflow="unknown"'
        )
    return min(sampling.max_tokens, room)


def finish_reason(told: str, tokens: int, sampling: Sampling) -> FinishReason:
    """Why a completion ended, given the engine's reason: below its own limit, ``"length"`` means the context.

    Example:
        >>> limit = Sampling(max_tokens=24)
        >>> finish_reason("length", 24, limit), finish_reason("length", 8, limit)
        ('length', 'context')
    """
    if told != "length":
        return "stop"
    return "length" if tokens >= sampling.max_tokens else "context"


def without_room(prompt_ids: Sequence[int], n: int, sampling: Sampling) -> list[Completion]:
    """N samples of a prompt that fills the context: empty, and cut off by the context."""
    ids = tuple(prompt_ids)
    empty = Completion(
        "", "context", prompt_ids=ids, temperature=sampling.temperature, prompt_tokens=len(ids)
    )
    return [empty] * n
