"""What a model is asked: the three forms of a prompt (text, token ids, chat messages), and the sampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from mars_env.errors import ConfigError
from mars_env.types import Message, Prompt, Sampling


def is_token_ids(prompt: Prompt) -> TypeGuard[Sequence[int]]:
    """Whether a prompt is a sequence of token ids.

    Example:
        >>> is_token_ids([1, 2]), is_token_ids("1 2"), is_token_ids([{"role": "user", "content": "1"}])
        (True, False, False)
    """
    return not isinstance(prompt, str) and len(prompt) > 0 and not isinstance(prompt[0], Mapping)


def is_messages(prompt: Prompt) -> TypeGuard[Sequence[Message]]:
    """Whether a prompt is a sequence of chat messages.

    Example:
        >>> is_messages([{"role": "user", "content": "1"}]), is_messages([1, 2])
        (True, False)
    """
    return not isinstance(prompt, str) and len(prompt) > 0 and isinstance(prompt[0], Mapping)


def check_request(n: int, sampling: Sampling) -> None:
    """Refuse a request that makes no sense, in the same words for every model.

    Raises:
        ConfigError: If a number is out of its range.
    """
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
        raise ConfigError(f"stop must be a tuple of texts that are not empty, got {sampling.stop!r}")


def plain_chat(messages: Sequence[Message]) -> str:
    r"""Render chat messages for a model that has no chat template of its own.

    Each message is its role, a colon and its content; messages are parted by an empty line, and
    the assistant's turn is opened at the end.

    Example:
        >>> plain_chat([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}])
        'System: Be brief.\n\nUser: 2 + 2?\n\nAssistant:'
    """
    parts = [f"{message['role'].capitalize()}: {message['content']}" for message in messages]
    return "\n\n".join([*parts, "Assistant:"])


def prompt_text(prompt: Prompt) -> str:
    """A prompt as one text, for scripts and logs; token ids are written as numbers.

    Example:
        >>> prompt_text([5, 6])
        '5 6'
    """
    if isinstance(prompt, str):
        return prompt
    if is_token_ids(prompt):
        return " ".join(map(str, prompt))
    return plain_chat(prompt) if is_messages(prompt) else ""
