"""What learner and samplers send each other, as checked values: nothing of it is trusted, nothing pickled.

A sampler posts to ``/v1/take`` and is told what to sample, posts each answer to ``/v1/give``, and says at
``/v1/alive`` that it works. ``GET /v1/weights`` waits for a newer publication, and
``GET /v1/weights/NUMBER/POLICY`` is a file of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeFloat,
    NonNegativeInt,
    StrictInt,
    StrictStr,
)

from mars_env.checks import MAX_TOKEN_ID, SLACK
from mars_env.trainers.swarm.weights import Publication
from mars_env.types import INTERRUPTIONS, UNKNOWN_LOGPROB, Action, Completion, FinishReason

MOST_SAMPLES = 4096
"""Most samples of one ask."""
MOST_ASKS = 4096
"""Most asks that a sampler may work on at the same time."""
MOST_FAULT = 2000
"""Most characters of a reason."""
HOTTEST = 100.0
"""Temperatures are between its inverse and it: others would overflow the logits."""

Name = Annotated[StrictStr, Field(min_length=1, max_length=200)]
AskId = Annotated[StrictStr, Field(min_length=1, max_length=100)]
Count = Annotated[StrictInt, Field(ge=0, lt=2**40)]
TokenId = Annotated[StrictInt, Field(ge=0, lt=MAX_TOKEN_ID)]
LogProb = Annotated[FiniteFloat, Field(gt=UNKNOWN_LOGPROB, le=SLACK)]


class _Sent(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Ask(_Sent):
    """One act of one agent: what it sees, how many samples, and how new the weights must be."""

    id: AskId
    agent: Name
    observation: dict[Name, StrictStr | StrictInt]
    n: Annotated[StrictInt, Field(ge=1, le=MOST_SAMPLES)]
    seed: Annotated[StrictInt, Field(ge=0, lt=2**64)]
    weights: Publication
    """The oldest publication that may sample it."""


class Working(_Sent):
    """What a sampler says of itself with each request."""

    sampler: Name
    """Its name, unique among the learner's samplers."""
    holds: NonNegativeInt = 0
    """Number of the newest publication that it has received."""
    busy: NonNegativeFloat = 0.0
    """Seconds in which it sampled, since it started."""


class Take(Working):
    """A sampler asks for work."""

    agents: Annotated[dict[Name, Name], Field(max_length=1000)]
    """Its agents' policies, by agent."""
    room: Annotated[StrictInt, Field(ge=1, le=MOST_ASKS)]
    """Asks that it can begin now."""


class Taken(_Sent):
    """The answer: work, for which the sampler must show that it lives every `lease` seconds."""

    asks: Annotated[list[Ask], Field(max_length=MOST_ASKS)] = []
    lease: Annotated[FiniteFloat, Field(gt=0)]
    over: bool = False
    """The training is done: the sampler may end."""


class Alive(Working):
    """A sampler shows that it lives."""

    asks: Annotated[list[AskId], Field(max_length=MOST_ASKS)]
    """What it works on."""


class Left(_Sent):
    """A sampler was heard to leave: how many of its asks go to others."""

    asks: NonNegativeInt = 0


class Wanted(_Sent):
    """The answer: which of these asks nobody wants any more."""

    dropped: Annotated[list[AskId], Field(max_length=MOST_ASKS)] = []


class SentCompletion(_Sent):
    """A completion; see `mars_env.types.Completion`."""

    text: StrictStr
    finish_reason: FinishReason
    prompt_ids: list[TokenId]
    token_ids: list[TokenId]
    logprobs: list[LogProb]
    temperature: Annotated[FiniteFloat, Field(ge=1 / HOTTEST, le=HOTTEST)]
    versions: Annotated[list[tuple[Count, Count]], Field(max_length=10_000)]

    @classmethod
    def of(cls, completion: Completion) -> Self:
        """What is sent of a completion."""
        return cls(
            text=completion.text,
            finish_reason=completion.finish_reason,
            prompt_ids=list(completion.prompt_ids),
            token_ids=list(completion.token_ids),
            logprobs=list(completion.logprobs),
            temperature=completion.temperature,
            versions=list(completion.versions),
        )

    def completion(self) -> Completion:
        """The completion."""
        return Completion(
            self.text,
            self.finish_reason,
            tuple(self.prompt_ids),
            tuple(self.token_ids),
            tuple(min(0.0, value) for value in self.logprobs),
            self.temperature,
            tuple(self.versions),
            len(self.prompt_ids),
            len(self.token_ids),
        )


class SentAction(_Sent):
    """An action."""

    text: StrictStr
    completions: Annotated[list[SentCompletion], Field(min_length=1, max_length=1000)]


class Give(Working):
    """A sampler's answer to an ask: the actions, or why there are none."""

    ask: AskId
    actions: Annotated[list[SentAction], Field(max_length=MOST_SAMPLES)] = []
    fault: Annotated[StrictStr, Field(max_length=MOST_FAULT)] = ""


class Given(_Sent):
    """What became of an answer: taken, no longer wanted, or refused with a reason."""

    result: Literal["taken", "unwanted", "refused"]
    why: Annotated[StrictStr, Field(max_length=MOST_FAULT)] = ""


def sent(actions: Sequence[Action]) -> list[SentAction]:
    """Actions as they are sent.

    Raises:
        ValueError: They cannot be sent: no completions, an odd temperature ...
    """
    return [
        SentAction(text=action.text, completions=[SentCompletion.of(c) for c in action.completions])
        for action in actions
    ]


def received(
    give: Give, n: int, versions: tuple[int, int], vocabulary: int, context: int
) -> tuple[list[Action], str]:
    """The actions of an answer, or why it is refused: a learner could not train on it, or not be right to.

    Args:
        give: The answer.
        n: How many samples were asked for.
        versions: The oldest and the newest version of the policy that may have sampled them.
        vocabulary: Number of the policy's token ids.
        context: Most tokens of prompt and completion together.

    Example:
        >>> one = SentCompletion(text="4", finish_reason="stop", prompt_ids=[1], token_ids=[7], logprobs=[-1],
        ...                      temperature=1.0, versions=[(3, 1)])
        >>> give = Give(sampler="s", ask="1", actions=[SentAction(text="4", completions=[one])])
        >>> received(give, 1, (3, 4), vocabulary=8, context=16)[1]
        ''
        >>> received(give, 1, (4, 4), vocabulary=8, context=16)[1]
        'weights of version 3 sampled it, where 4 to 4 are asked for'
    """
    if len(give.actions) != n:
        return [], f"{len(give.actions)} samples where {n} were asked for"
    actions = [Action(a.text, tuple(c.completion() for c in a.completions)) for a in give.actions]
    for completion in (c for action in actions for c in action.completions):
        if why := _unfit(completion, versions, vocabulary, context):
            return [], why
    return actions, ""


def _unfit(completion: Completion, versions: tuple[int, int], vocabulary: int, context: int) -> str:
    ids, tokens = completion.prompt_ids, completion.token_ids
    if completion.finish_reason not in INTERRUPTIONS and not completion.trainable:
        return "token ids and log-probabilities are needed to train on it, one for each token"
    if len(completion.logprobs) != len(tokens):
        return f"{len(completion.logprobs)} log-probabilities for {len(tokens)} tokens"
    if max((*ids, *tokens), default=0) >= vocabulary:
        return f"a token id beyond the vocabulary of {vocabulary}"
    if tokens and len(ids) + len(tokens) > context:  # a prompt that leaves no room is cut off, and UNKNOWN
        return f"{len(ids) + len(tokens)} tokens, where the context holds {context}"
    if sum(count for _, count in completion.versions) != len(tokens):
        return "the versions do not cover the tokens"
    odd = [version for version, _ in completion.versions if not versions[0] <= version <= versions[1]]
    if odd:
        return f"weights of version {odd[0]} sampled it, where {versions[0]} to {versions[1]} are asked for"
    return ""
