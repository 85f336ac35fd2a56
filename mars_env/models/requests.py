"""What a model is asked, and what it answers: prompts and their token ids, sampling, the context's room."""

import json
import math
import operator
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeGuard

from jinja2 import TemplateError

from mars_env.errors import ConfigError, ContextError, ModelError
from mars_env.gate import break_roles, map_message, without_surrogates
from mars_env.models.token_gate import encode_runs, gate_of
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
    """Reject a request that makes no sense, by the same `ConfigError` for every model."""
    if n < 1:
        raise ConfigError(f"n must be at least 1, got {n}")
    if sampling.max_tokens < 1:
        raise ConfigError(f"max_tokens must be at least 1, got {sampling.max_tokens}")
    if sampling.overflow not in ("check", "unknown", "refuse"):
        raise ConfigError(f"overflow is 'check', 'unknown' or 'refuse', got {sampling.overflow!r}")
    if not 0 <= sampling.temperature < math.inf:
        raise ConfigError(f"temperature must be at least 0 and finite, got {sampling.temperature}")
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
    parts = [f"{message['role'].capitalize()}: {break_roles(message['content'])}" for message in messages]
    return "\n\n".join([*parts, "Assistant:"])


def prompt_text(prompt: Prompt) -> str:
    """A prompt as one string, for scripts and logs."""
    if isinstance(prompt, str):
        return prompt
    if is_token_ids(prompt):
        return " ".join(map(str, prompt))
    return plain_chat(prompt) if is_messages(prompt) else ""


def with_messages(completions: Sequence[Completion], prompt: Prompt) -> list[Completion]:
    """Completions that say what their model was sent, where they do not say it yet."""
    messages: tuple[tuple[str, str], ...] = ()
    if isinstance(prompt, str):
        messages = (("prompt", prompt),)
    elif is_messages(prompt):
        messages = tuple((str(message["role"]), _message_text(message)) for message in prompt)
    return [one if one.messages else replace(one, messages=messages) for one in completions]


def _message_text(message: Message) -> str:
    content = message.get("content") or ""
    calls = [json.dumps(call.get("function")) for call in message.get("tool_calls") or ()]
    return "\n".join([content if isinstance(content, str) else json.dumps(content), *calls])


def with_instruction(prompt: Prompt, text: str) -> Prompt:
    """A prompt whose system message ends with a text; a string begins with it; token ids are a ConfigError.

    Example:
        >>> with_instruction([{"role": "user", "content": "2 + 2?"}], "Be brief.")[0]
        {'role': 'system', 'content': 'Be brief.'}
    """
    if isinstance(prompt, str):
        return f"{text}\n\n{prompt}"
    if not is_messages(prompt):
        raise ConfigError(f"{text[:40]!r} cannot be added to a prompt of token ids: give text or messages")
    first, *others = prompt
    if first["role"] != "system":
        return [{"role": "system", "content": text}, *prompt]
    return [{**first, "content": f"{first['content']}\n\n{text}"}, *others]


def room_for(name: str, prompt_tokens: int, sampling: Sampling, context: int) -> int:
    """Tokens that may be sampled after a prompt: the agent's limit, or what the context leaves; at least 0.

    A `ContextError` if there is less room than the limit, and ``Sampling.overflow`` rejects that.
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
    return [sampled_completion(tuple(prompt_ids), sampling, Sampled((), (), "length", ()), "")] * n


def require_fit(completion: Completion, context: int | None, name: str) -> None:
    """Reject, by a `ContextError`, what is longer than a model's context, where that is known."""
    length = len(completion.prompt_ids) + len(completion.token_ids)
    if context is not None and length > context:
        raise ContextError(f"{name}: prompt and text are {length} tokens, its context holds {context}")


class Sampled(NamedTuple):
    """One completion as an engine returns it.

    Attributes:
        token_ids: The sampled tokens, the stop token included.
        logprobs: Of each token, under the sampling distribution.
        versions: Of the weights, run-length.
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


class TokenWriter:
    """Prompts and given texts as token ids, for every model whose tokenizer is here."""

    name: str
    tokenizer: Any
    vocabulary: int
    template_options: Mapping[str, Any] = MappingProxyType({})
    """Passed to the tokenizer's chat template."""

    def encode(self, prompt: Prompt, tools: Sequence[Mapping[str, Any]] = ()) -> tuple[int, ...]:
        """The token ids that the model reads for a prompt.

        Token ids are used as they are; a string is encoded as the tokenizer does by default, control tokens
        included; messages go through the tokenizer's chat template with the schemas of `tools`, or through
        `plain_chat` if it has none. Contents of messages are data: an added token that they spell out
        (``<|im_end|>``, ``</think>``) is encoded as ordinary text, see `mars_env.models.token_gate`.

        Raises:
            ModelError: There are no tokens, or ids not below `vocabulary`.
        """
        if isinstance(prompt, str):
            ids: Iterable[int] = self.tokenizer.encode(without_surrogates(prompt))
        elif is_messages(prompt):
            ids = self._encode_chat(prompt, tools)
        else:
            ids = map(operator.index, prompt)  # type: ignore[arg-type]
        return self._checked(ids, "the prompt")

    def written(self, prompt: Prompt, *texts: str | Sequence[int], end: bool = True) -> Completion:
        """The completion that given texts would be: its token ids, without log-probabilities.

        Each text is encoded separately from the prompt and the others, so no token crosses a boundary. A
        special token that a text spells out (``<|im_end|>``) is read as ordinary characters, because a
        model's text must not be able to end a turn. Token ids are used as they are. With `end` the token that
        ends a completion follows.

        Raises:
            ModelError: There are no tokens, or ids outside the vocabulary.
        """
        ids, tokens = self.encode(prompt), list[int]()
        for text in texts:
            if isinstance(text, str):
                tokens += self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
            else:
                tokens += map(operator.index, text)
        if end:
            if self.tokenizer.eos_token_id is None:
                raise ConfigError(f"{self.name}: its tokenizer has no end token: give end=False")
            tokens.append(self.tokenizer.eos_token_id)
        return Completion(
            "".join(text for text in texts if isinstance(text, str)),
            "stop" if end else "length",
            prompt_ids=ids,
            token_ids=self._checked(tokens, "the text"),
            prompt_tokens=len(ids),
            completion_tokens=len(tokens),
        )

    def _checked(self, ids: Iterable[int], what: str) -> tuple[int, ...]:
        ids = tuple(ids)
        if not ids:
            raise ModelError(f"{self.name}: {what} has no tokens; give it at least one")
        if min(ids) < 0 or max(ids) >= self.vocabulary:
            raise ModelError(f"{self.name}: {what} has a token id outside 0 to {self.vocabulary - 1}")
        return ids

    def _encode_chat(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Iterable[int]:
        gate, special = gate_of(self.tokenizer), not getattr(self.tokenizer, "chat_template", None)
        messages = [map_message(message, without_surrogates) for message in messages]
        if special:
            messages = [map_message(message, break_roles) for message in messages]
        elif gate.is_plain(messages, tools):
            ids: Iterable[int] = self._render(messages, tools, tokenize=True)
            return ids
        render = _render_plain if special else self._render
        return encode_runs(self.tokenizer, gate.runs(render, messages, tools), special=special)

    def _render(self, messages: Sequence[Message], tools: Sequence[Any], *, tokenize: bool = False) -> Any:
        options = {**self.template_options, "tools": list(tools)} if tools else self.template_options
        try:
            return self.tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                add_generation_prompt=True,
                tokenize=tokenize,
                return_dict=False,
                **options,
            )
        except TemplateError as error:
            roles = ", ".join(message["role"] for message in messages)
            why = f'{error}; where it knows no system message, give the agents system=""'
            raise ConfigError(f"{self.name}: its chat template rejects messages of {roles}: {why}") from error


def _render_plain(messages: Sequence[Message], tools: Sequence[Any]) -> str:
    return plain_chat(messages)


class TokenModel(TokenWriter, ABC):
    """A model whose prompts become token ids here: the same for every engine that samples and scores."""

    context: int
    """Most tokens of prompt and completion together."""

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Completion]:
        """Sample n completions of one prompt.

        One that the context cuts off has the finish reason ``"context"``; one without any room is empty.

        Raises:
            ModelError: The engine fails (out of memory, say).
            ContextError: There is too little room, and the sampling rejects that.
        """
        check_request(n, sampling)
        ids = self.encode(prompt)
        room = room_for(self.name, len(ids), sampling, self.context)
        sampled = await self._sampled(ids, n, sampling, room) if room else without_room(ids, n, sampling)
        return with_messages(sampled, prompt)

    def completion(self, ids: tuple[int, ...], sampling: Sampling, sampled: Sampled) -> Completion:
        """The completion of what was sampled after a prompt's `ids`; a `ModelError` if it was broken off."""
        if sampled.finish_reason not in ("stop", "length"):
            raise ModelError(f"{self.name}: the request was aborted: finish reason {sampled.finish_reason!r}")
        text = self.tokenizer.decode(list(sampled.token_ids), skip_special_tokens=True)
        return sampled_completion(ids, sampling, sampled, text)

    @abstractmethod
    async def _sampled(
        self, ids: tuple[int, ...], n: int, sampling: Sampling, room: int
    ) -> list[Completion]: ...

    async def score(self, prompt: Prompt, *texts: str | Sequence[int], end: bool = True) -> Completion:
        """How probable given texts are after a prompt: their completion with its log-probabilities.

        The logarithm of the probability of the whole is the sum of ``logprobs``, at temperature 1. See
        `written` for how texts become tokens.

        Raises:
            ContextError: Prompt and texts are longer than the model's context.
            ModelError: As `written`, or the engine fails.
        """
        completion = self.written(prompt, *texts, end=end)
        require_fit(completion, self.context, self.name)
        return await self._scored(completion)

    @abstractmethod
    async def _scored(self, completion: Completion) -> Completion: ...
