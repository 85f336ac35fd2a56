"""What learner and samplers send each other as JSON. Nothing of it is trusted, nothing pickled.

All messages go over one WebSocket at ``/v1/sampler``; ``GET /v1/weights/NUMBER/POLICY`` is a file of weights.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

from pydantic import BaseModel, Field, FiniteFloat, NonNegativeInt, StrictInt, StrictStr, TypeAdapter

from mars_env.checks import logprobs
from mars_env.trainers.swarm.weights import Publication
from mars_env.types import INTERRUPTIONS, Action, Completion

MOST = 4096
"""Most samples of one ask, and most asks that a sampler works on."""

MOST_FAULT = 2000
"""Most characters of a reason."""

_HOTTEST = 100.0
"""Temperatures are between its inverse and it: others would overflow the logits."""

_Name = Annotated[StrictStr, Field(min_length=1, max_length=200)]
_Reason = Annotated[StrictStr, Field(max_length=MOST_FAULT)]


class _Message(BaseModel, frozen=True, extra="forbid"):
    """What the two send."""


class Hello(_Message, frozen=True):
    """A sampler's first message: the policies of its agents, and how many asks it works on at a time."""

    kind: Literal["hello"] = "hello"
    agents: Annotated[dict[_Name, _Name], Field(max_length=1000)]
    room: Annotated[StrictInt, Field(ge=1, le=MOST)]


class Holds(_Message, frozen=True):
    """A sampler has received the weights of this publication."""

    kind: Literal["holds"] = "holds"
    number: NonNegativeInt


class Give(_Message, frozen=True):
    """The actions of an ask, or why there are none; `busy`: seconds of sampling since the last one."""

    kind: Literal["give"] = "give"
    ask: _Name
    actions: Annotated[list[Action], Field(max_length=MOST)] = []
    fault: _Reason = ""
    busy: Annotated[FiniteFloat, Field(ge=0, le=86_400)] = 0.0


class News(_Message, frozen=True):
    """Newer weights are published."""

    kind: Literal["news"] = "news"
    publication: Publication


class RemoteAct(_Message, frozen=True):
    """An ask: one act of one agent, with the oldest publication whose weights may sample it."""

    kind: Literal["act"] = "act"
    id: _Name
    agent: _Name
    observation: dict[_Name, StrictStr | StrictInt]
    n: Annotated[StrictInt, Field(ge=1, le=MOST)]
    seed: Annotated[StrictInt, Field(ge=0, lt=2**64)]
    weights: Publication


class Drop(_Message, frozen=True):
    """This ask is cancelled."""

    kind: Literal["drop"] = "drop"
    ask: _Name


class Bye(_Message, frozen=True):
    """The training is over, or the learner rejects the sampler."""

    kind: Literal["bye"] = "bye"
    why: _Reason = ""


FROM_SAMPLER: TypeAdapter[Hello | Holds | Give] = TypeAdapter(
    Annotated[Hello | Holds | Give, Field(discriminator="kind")]
)
FROM_LEARNER: TypeAdapter[News | RemoteAct | Drop | Bye] = TypeAdapter(
    Annotated[News | RemoteAct | Drop | Bye, Field(discriminator="kind")]
)


def received(
    actions: Sequence[Action], n: int, versions: tuple[int, int], vocabulary: int, context: int
) -> list[Action]:
    """The actions of an answer; a ValueError says why a learner cannot train on them.

    `n` were asked for, `versions` are the oldest and the newest of the policy that may have sampled them, and
    `context` is the most tokens of prompt and completion together.

    Example:
        >>> one = Completion("4", "stop", (1,), (7,), (-1.0,), versions=((3, 1),))
        >>> [action] = received([Action("4", (one,))], 1, (3, 4), vocabulary=8, context=16)
        >>> received([action], 1, (4, 4), vocabulary=8, context=16)
        Traceback (most recent call last):
        ValueError: weights of version 3 sampled it, not of 4 to 4
    """
    if len(actions) != n:
        raise ValueError(f"{len(actions)} samples where {n} were asked for")
    if not all(action.completions for action in actions):
        raise ValueError("an action without a completion")
    whole = partial(_whole, versions=versions, vocabulary=vocabulary, context=context)
    return [replace(action, completions=tuple(map(whole, action.completions))) for action in actions]


def _whole(completion: Completion, versions: tuple[int, int], vocabulary: int, context: int) -> Completion:
    """The completion with our own counts, and log-probabilities that rounding has not lifted above 0."""
    prompt, tokens = completion.prompt_ids, completion.token_ids
    if completion.finish_reason not in INTERRUPTIONS and not completion.trainable:
        raise ValueError("token ids and log-probabilities are needed to train on it, one for each token")
    if len(completion.logprobs) != len(tokens):
        raise ValueError(f"{len(completion.logprobs)} log-probabilities for {len(tokens)} tokens")
    if not all(0 <= token < vocabulary for token in (*prompt, *tokens)):
        raise ValueError(f"a token id beyond the vocabulary of {vocabulary}")
    if tokens and len(prompt) + len(tokens) > context:  # a prompt that leaves no room is cut off, and UNKNOWN
        raise ValueError(f"{len(prompt) + len(tokens)} tokens, where the context holds {context}")
    if not 1 / _HOTTEST <= completion.temperature <= _HOTTEST:
        raise ValueError(f"the temperature {completion.temperature}")
    if completion.train_prompt_ids:
        raise ValueError("another prompt to train on than the one that was read")
    counts = [count for _, count in completion.versions]
    if sum(counts) != len(tokens) or min(counts, default=0) < 0:
        raise ValueError("the versions do not cover the tokens")
    odd = [version for version, _ in completion.versions if not versions[0] <= version <= versions[1]]
    if odd:
        raise ValueError(f"weights of version {odd[0]} sampled it, not of {versions[0]} to {versions[1]}")
    read, sampled, known = len(prompt), len(tokens), logprobs(completion.logprobs)
    return replace(completion, logprobs=known, prompt_tokens=read, completion_tokens=sampled)
