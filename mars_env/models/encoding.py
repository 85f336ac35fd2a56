"""Token ids of a prompt for models in this process: the same for every engine."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jinja2 import TemplateError

from mars_env.errors import ConfigError, ContextError, ModelError
from mars_env.models.requests import finish_reason, is_messages, plain_chat
from mars_env.types import Completion, Message, Prompt, Sampling


def encode_prompt(
    tokenizer: Any,
    prompt: Prompt,
    vocabulary: int,
    name: str,
    template_options: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]] = (),
) -> tuple[int, ...]:
    """The token ids that a model reads for a prompt.

    Token ids are used as they are; a string is encoded as the tokenizer does by default; messages go through
    the tokenizer's chat template with `template_options` and the schemas of `tools`, or through `plain_chat`
    if it has none.

    Raises:
        ModelError: There are no tokens, or ids not below `vocabulary`.
        ConfigError: The chat template rejects the messages.
    """
    if isinstance(prompt, str):
        ids: Iterable[int] = tokenizer.encode(prompt)
    elif is_messages(prompt):
        options = {**template_options, "tools": list(tools)} if tools else template_options
        ids = _encode_chat(tokenizer, prompt, options, name)
    else:
        ids = map(operator.index, prompt)  # type: ignore[arg-type]
    ids = tuple(ids)
    if not ids:
        raise ModelError(f"{name}: the prompt has no tokens; give it at least one")
    if min(ids) < 0 or max(ids) >= vocabulary:
        raise ModelError(f"{name}: the prompt has a token id outside 0 to {vocabulary - 1}")
    return ids


def encode_text(tokenizer: Any, text: str | Sequence[int], vocabulary: int, name: str) -> tuple[int, ...]:
    """The token ids of a text that a model writes: nothing is added before or after it.

    A special token that the text spells out (``<|im_end|>``) is read as ordinary characters, because a
    model's text must not be able to end a turn. Token ids are used as they are; one not below `vocabulary` is
    a `ModelError`.
    """
    if isinstance(text, str):
        ids = tuple(tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))
    else:
        ids = tuple(map(operator.index, text))
    if ids and (min(ids) < 0 or max(ids) >= vocabulary):
        raise ModelError(f"{name}: the text has a token id outside 0 to {vocabulary - 1}")
    return ids


def written(
    tokenizer: Any,
    ids: Sequence[int],
    texts: Sequence[str | Sequence[int]],
    vocabulary: int,
    name: str,
    *,
    end: bool = True,
) -> Completion:
    """The completion that given texts would be after a prompt: its token ids, without log-probabilities.

    Each text is encoded separately. With `end` the token that ends a completion follows.

    Raises:
        ModelError: There are no tokens, or ids outside the vocabulary.
        ConfigError: The tokenizer has no token that ends a completion.

    Example:
        >>> written(None, (1, 2), [(3,), (0,)], 4, "m", end=False).token_ids
        (3, 0)
    """
    tokens: list[int] = []
    for text in texts:
        tokens += encode_text(tokenizer, text, vocabulary, name)
    if end:
        if tokenizer.eos_token_id is None:
            raise ConfigError(f"{name}: its tokenizer has no end token: give end=False")
        tokens.append(tokenizer.eos_token_id)
    if not tokens:
        raise ModelError(f"{name}: the text has no tokens")
    return Completion(
        "".join(text for text in texts if isinstance(text, str)),
        "stop" if end else "length",
        prompt_ids=tuple(ids),
        token_ids=tuple(tokens),
        prompt_tokens=len(ids),
        completion_tokens=len(tokens),
    )


def require_fit(given: Completion, context: int | None, name: str) -> None:
    """Reject, by a `ContextError`, what is longer than a model's context, where that is known."""
    length = len(given.prompt_ids) + len(given.token_ids)
    if context is not None and length > context:
        raise ContextError(f"{name}: prompt and text are {length} tokens, its context holds {context}")


def _encode_chat(
    tokenizer: Any, messages: Sequence[Message], options: Mapping[str, Any], name: str
) -> Iterable[int]:
    if not getattr(tokenizer, "chat_template", None):
        return tokenizer.encode(plain_chat(messages))  # type: ignore[no-any-return]
    try:
        return tokenizer.apply_chat_template(  # type: ignore[no-any-return]
            [dict(message) for message in messages],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
            **options,
        )
    except TemplateError as error:
        roles = ", ".join(message["role"] for message in messages)
        why = f'{error}; where it knows no system message, give the agents system=""'
        raise ConfigError(f"{name}: its chat template rejects messages of {roles}: {why}") from error


class Sampled(NamedTuple):
    """One completion as an engine returns it.

    Attributes:
        token_ids: The sampled tokens, the stop token included.
        logprobs: One for each token, under the sampling distribution.
        finish_reason: ``"stop"`` or ``"length"``.
        versions: Run-length versions of the weights.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: str
    versions: tuple[tuple[int, int], ...]


def sampled_completion(ids: tuple[int, ...], sampling: Sampling, sampled: Sampled, text: str) -> Completion:
    """The completion of what was sampled after a prompt's `ids`; its text ends before a stop string."""
    tokens = sampled.token_ids
    end = min((place for stop in sampling.stop if (place := text.find(stop)) >= 0), default=len(text))
    return Completion(
        text=text[:end],
        finish_reason=finish_reason(sampled.finish_reason, len(tokens), sampling),
        prompt_ids=ids,
        token_ids=tokens,
        logprobs=sampled.logprobs,
        temperature=sampling.temperature,
        versions=sampled.versions,
        prompt_tokens=len(ids),
        completion_tokens=len(tokens),
    )
