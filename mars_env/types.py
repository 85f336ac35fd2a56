"""The nouns of mars_env: frozen values, and the protocols that users implement.

An episode, a grouped rollout and a tree search have one format: a tree of turns.
"""

import math
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Real
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, runtime_checkable

Observation = Mapping[str, str | int]
"""What an agent sees: named strings or small integers. Never the reference answer."""

Message = Mapping[str, Any]
"""One chat message: ``{"role": "system" | "user" | "assistant", "content": text}``. A turn with tools also
has ``tool_calls`` in the assistant's messages, and messages of the role ``"tool"``."""

Prompt = str | Sequence[int] | Sequence[Message]
"""A raw string, exact token ids, or chat messages that the model's own template renders."""

FinishReason = Literal["stop", "length", "context", "content_filter", "fault"]
"""See `Completion`."""

_NUMBER: Any = Real  # also numpy's

UNKNOWN_LOGPROB: Final = -9999.0
"""What servers with OpenAI's interface write for an unknown log-probability."""
INTERRUPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "context": "the model's context was full before the completion's own limit",
        "content_filter": "the server's content filter ended the completion",
        "fault": "the sample was lost",
    }
)
"""The finish reasons that the set-up causes, not the model, each with its explanation in messages."""


class Verdict(StrEnum):
    """A grader's finding. UNKNOWN means that the machinery failed; it says nothing about the answer."""

    CORRECT = "CORRECT"
    WRONG = "WRONG"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem.

    Attributes:
        id: Unique within its set.
        statement: What the agents read.
        reference: What the grader compares with, as plain data: the answer for mathematics, the tests for
            code. None if it is unknown. Never part of an observation or an info dict.
        kind: Which grader judges it; ``"open"`` problems need a grader that you give
            (`mars_env.grading.rubrics.RubricGrader`).
        metadata: Plain data: ``source``, ``licence``, ``level``, ``rubric`` and whatever else the set adds.
            As secret as the reference, but for the documents of SPELL's clusters.
    """

    id: str
    statement: str
    reference: Any = field(default=None, repr=False)
    kind: Literal["math", "code", "open"] = "math"
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str):
            raise ValueError(f"a problem's id must be a string, got {self.id!r:.100}: give str(...) of it")
        if not isinstance(self.statement, str):
            raise ValueError(f"the statement of {self.id!r:.60} is a string, got {self.statement!r:.60}")


@dataclass(frozen=True, slots=True)
class Grade:
    """The outcome of judging one answer to one problem.

    Attributes:
        score: In [0, 1]; None if and only if the verdict is UNKNOWN.
        reason: One sentence: why it is WRONG or UNKNOWN.
        feedback: What a refining agent may read; contains nothing from private tests or references.
        backend: What judged it, e.g. ``"integer"``, ``"symbolic"``, ``"bubblewrap"``.
        tokens: Tokens that a model sampled to judge it.
        details: What the grader wants to store, as plain data; as secret as the grade itself.

    Example:
        >>> Grade.wrong("no answer was found").score, Grade.unknown("the sandbox was lost").score
        (0.0, None)
    """

    verdict: Verdict
    score: float | None
    reason: str = ""
    feedback: str = ""
    seconds: float = 0.0
    backend: str = ""
    tokens: int = 0
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.verdict, Verdict):
            raise ValueError(f"a grade's verdict must be a Verdict, got {self.verdict!r}")
        if (self.score is None) != (self.verdict is Verdict.UNKNOWN):
            raise ValueError(f"a {self.verdict} grade cannot have the score {self.score!r}")
        score: Any = self.score  # a user's grader may give anything
        if score is not None:
            if not isinstance(score, _NUMBER) or not 0.0 <= score <= 1.0:
                raise ValueError(f"a score must be in [0, 1], got {score!r}")
            object.__setattr__(self, "score", float(score))  # the store cannot write numpy's numbers
        if not all(isinstance(text, str) for text in (self.reason, self.feedback, self.backend)):
            raise ValueError("a grade's reason, feedback and backend must be strings")
        seconds: Any = self.seconds
        if not isinstance(seconds, _NUMBER) or not -math.inf < seconds < math.inf or abs(seconds) > 1e300:
            raise ValueError(f"a grade's seconds must be a finite number, got {seconds!r}")
        if type(self.tokens) is not int or self.tokens < 0:
            raise ValueError(f"a grade's tokens must be a count, got {self.tokens!r}")
        if not isinstance(self.details, Mapping):
            raise ValueError(f"a grade's details must be a mapping, got {self.details!r}")

    @classmethod
    def correct(cls, **details: Any) -> "Grade":
        """A CORRECT grade with score 1."""
        return cls(Verdict.CORRECT, 1.0, **details)

    @classmethod
    def wrong(cls, reason: str, *, score: float = 0.0, **details: Any) -> "Grade":
        """A WRONG grade; ``score`` may be the fraction of tests passed."""
        return cls(Verdict.WRONG, score, reason, **details)

    @classmethod
    def unknown(cls, reason: str, **details: Any) -> "Grade":
        """An UNKNOWN grade: the machinery failed, so nothing is known about the answer."""
        return cls(Verdict.UNKNOWN, None, reason, **details)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample a completion.

    Attributes:
        temperature: 0 is greedy.
        top_p: Training needs 1.
        top_k: 0 means all tokens; training needs 0.
        max_tokens: Of one completion.
        stop: Strings that end a completion (its text excludes them).
        seed: The request's seed; sample i of n uses ``derive_seed(seed, i)``.
        overflow: What happens when prompt and limit together exceed the model's context. ``"check"``: a run
            in which that can happen is rejected before it starts, if this can be known; in play, a completion
            that the context cuts off is UNKNOWN. ``"unknown"``: the same without the check. ``"refuse"``: the
            check, and in play a `mars_env.errors.ContextError` ends the run.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 4096
    stop: tuple[str, ...] = ()
    seed: int | None = None
    overflow: Literal["check", "unknown", "refuse"] = "check"


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled completion, as exactly as the model's server reports it.

    Attributes:
        text: The decoded text, without special tokens.
        finish_reason: ``"stop"`` (it ended by itself), ``"length"`` (cut off at its own ``max_tokens``),
            ``"context"`` (cut off earlier, because the model's context was full), ``"content_filter"``, or
            ``"fault"`` (its request failed, or took too long, while others of the turn did not).
        prompt_ids: Token ids that the model read; empty if the server does not report them.
        token_ids: Token ids that were sampled, including the stop token; never re-tokenised.
        logprobs: One for each of ``token_ids``: natural logarithms under the distribution that was sampled
            from, that is, after the temperature was applied.
        temperature: That it was sampled at; a trainer divides its logits by it.
        versions: Policy versions, run-length encoded: ``((version, number of tokens), ...)``.
        prompt_tokens: Their number, known even if the server does not report the ids.
        completion_tokens: Likewise.
        train_prompt_ids: The prompt to train on, where the model read another one; else empty.
        fault: Why it was lost, for the finish reason ``"fault"``.
        informed_gain: In nats, how much more probable its tokens are to the same model when it is shown the
            reference; None if it was not asked (`mars_env.trainers.imitation`).
        messages: What the model was sent, for readers: the role and the text of each message. A raw prompt
            has the role ``"prompt"``; token ids alone leave it empty. It does not count in comparisons.
    """

    text: str
    finish_reason: FinishReason = "stop"
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    temperature: float = 1.0
    versions: tuple[tuple[int, int], ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    train_prompt_ids: tuple[int, ...] = ()
    fault: str = ""
    informed_gain: float | None = None
    messages: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    @property
    def sampled_tokens(self) -> int:
        """Number of sampled tokens: the server's count, else the number of ids."""
        return self.completion_tokens or len(self.token_ids)

    @property
    def read_tokens(self) -> int:
        """Number of prompt tokens: the server's count, else the number of ids."""
        return self.prompt_tokens or len(self.prompt_ids)

    @property
    def cut(self) -> bool:
        """Whether it was cut off, by its own limit or from outside."""
        return self.finish_reason == "length" or self.finish_reason in INTERRUPTIONS

    def continues(self, before: "Completion") -> bool:
        """Whether its prompt is that of an earlier completion, what was sampled there, and perhaps more."""
        read, trained = (*before.prompt_ids, *before.token_ids), before.train_prompt_ids
        ids = self.train_prompt_ids
        follow = (*trained, *before.token_ids, *self.prompt_ids[len(read) :]) if trained else ()
        extends = bool(before.token_ids) and self.prompt_ids[: len(read)] == read and ids == follow
        return extends and self.temperature == before.temperature

    @property
    def trainable(self) -> bool:
        """Whether a policy can be trained on it: it has token ids, and every log-probability is known."""
        logprob_count = len(self.logprobs) if UNKNOWN_LOGPROB not in self.logprobs else 0
        return bool(self.prompt_ids) and 0 < len(self.token_ids) == logprob_count


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool inside of a turn.

    Attributes:
        completion: Position in the action of the completion that asked for it.
        name: As the model wrote it.
        arguments: The call as JSON, or what the model wrote if that cannot be read.
        result: What the model read.
        outcome: ``"ok"``; ``"error"``, of the call or of the tool's own; ``"refused"``, beyond the limit of
            calls; ``"fault"``, of the machinery: the turn is UNKNOWN.
    """

    completion: int
    name: str
    arguments: str
    result: str
    outcome: Literal["ok", "error", "refused", "fault"] = "ok"
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Action:
    """What an agent does in one turn: a text, and the completions behind it (none, one or more).

    The text is what the other agents and the grader see, such as the last completion's without its thinking;
    training uses only the completions. Between these, the results of `calls` were read.
    """

    text: str
    completions: tuple[Completion, ...] = ()
    calls: tuple[ToolCall, ...] = ()

    @property
    def chains(self) -> tuple[tuple[Completion, ...], ...]:
        """The completions in runs whose prompts continue each other: each run is one text of the model."""
        runs: list[tuple[Completion, ...]] = []
        for completion in self.completions:
            if runs and completion.continues(runs[-1][-1]):
                runs[-1] += (completion,)
            else:
                runs.append((completion,))
        return tuple(runs)

    @property
    def truncated(self) -> bool:
        """Whether the completion behind the text was cut off, by its own limit or from outside."""
        return bool(self.completions) and self.completions[-1].cut

    @property
    def interrupted(self) -> str:
        """Why this action is graded UNKNOWN: the set-up, not the model, ended a completion; else empty."""
        if any(call.outcome == "fault" for call in self.calls):
            return "a tool could not be run"
        reasons = (INTERRUPTIONS.get(completion.finish_reason) for completion in self.completions)
        return self.fault or next(filter(None, reasons), "")

    @property
    def fault(self) -> str:
        """Why this sample of a turn was lost, where others were not; else empty."""
        lost = (each for each in self.completions if each.finish_reason == "fault")
        return next((each.fault or INTERRUPTIONS["fault"] for each in lost), "")


@dataclass(frozen=True, slots=True)
class Turn:
    """One action of one agent on one observation, as it is stored.

    Attributes:
        id: Its position in the tree: ``"0"`` for the first root turn, ``"0.2"`` for its third child.
        group_id: Of the turns that it is compared with when advantages are computed.
        agent: Who acted, e.g. ``"verifier_0"``.
        policy: Name of the weights that acted; turns of one policy train together.
        grade: None if the rules have the text not graded.
        search_score: The score that a search may see, in [0, 1]; None outside searches.
        reward: None if it depends on an UNKNOWN grade; such turns leave their group.
        info: Plain data that the rules record (round, verdict read, malformed ...).
    """

    tree_id: str
    id: str
    parent_id: str | None
    group_id: str
    agent: str
    policy: str
    problem_id: str
    action: Action
    grade: Grade | None = None
    search_score: float | None = None
    reward: float | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """The text of the action."""
        return self.action.text

    @property
    def role(self) -> str:
        """The agent's name without its number: ``"verifier_0"`` has the role ``"verifier"``."""
        return role_of(self.agent)

    @property
    def accepts(self) -> bool | None:
        """Whether a Verifier accepts: its verdict is ``"Correct"`` or ``"Wrong"``; None without either."""
        verdict = self.info.get("verdict")
        return verdict == "Correct" if verdict in ("Correct", "Wrong") else None

    @property
    def trainable(self) -> bool:
        """Whether all its completions have token ids and log-probabilities."""
        completions = self.action.completions
        return bool(completions) and all(c.trainable for c in completions)


@dataclass(frozen=True, slots=True)
class Group:
    """Turns that are compared with each other: those of one input (MarsRL) or of one tree (MARS2)."""

    id: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """One episode, or one search, on one problem: its turns, and which of them is the team's answer.

    Attributes:
        id: ``"<problem id>#<sample number>"``.
        turns: In the order of their ids.
        final: Id of the turn whose text is the team's answer; None if there is none.
        fault: Why it could not be finished (a lost model server, for example); else empty.
        info: Plain data about the whole tree (tokens spent on the final choice, for example).
    """

    id: str
    problem: Problem
    turns: tuple[Turn, ...]
    final: str | None = None
    fault: str = ""
    info: Mapping[str, Any] = field(default_factory=dict)


def role_of(agent: str) -> str:
    """The role of an agent's name: ``"solver"`` of ``"solver_0"``, ``"judge"`` of ``"judge"``."""
    role, _, number = agent.rpartition("_")
    return role if role and number.isdigit() else agent


@runtime_checkable
class Model(Protocol):
    """Something that completes prompts: a server, an in-process engine, a script."""

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Completion]:
        """Sample n completions of one prompt; a `mars_env.errors.ModelError` if sensible retries failed."""


@runtime_checkable
class ScoringModel(Model, Protocol):
    """A model that also scores given texts: `HFModel`, `VLLMModel`, `HTTPModel`."""

    def written(self, prompt: Prompt, *texts: str | Sequence[int], end: bool = True) -> Completion:
        """The completion that the texts would be: `score` without log-probabilities."""

    async def score(self, prompt: Prompt, *texts: str | Sequence[int], end: bool = True) -> Completion:
        """The completion that the texts would be, with exact ids and its log-probabilities at temperature 1.

        Each text is encoded separately; token ids are used as they are. `end`: whether the token that ends a
        completion follows, and counts.
        """


@runtime_checkable
class Agent(Protocol):
    """Acts in a role. Agents hold the prompts; environments never do."""

    @property
    def policy(self) -> str:
        """Name of the weights that act; turns with the same policy train together."""

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Choose n actions on one observation, independently of each other; `seed` is all randomness."""


@dataclass(frozen=True, slots=True)
class TrainingAsk:
    """What an agent gets for a turn that is played to train, beside its observation.

    Attributes:
        problem: The whole problem, with its reference and rubric: for help to sample that is not trained on.
        progress: How much of the run is done: 0 in its first step, 1 in its last.
    """

    problem: Problem
    progress: float


@runtime_checkable
class TrainingAgent(Agent, Protocol):
    """An agent that acts differently in training. Evaluations reject it."""

    async def act_in_training(
        self, observation: Observation, n: int, seed: int, ask: TrainingAsk
    ) -> list[Action]:
        """As `act`, in a run that trains."""


@runtime_checkable
class Grader(Protocol):
    """Judges a text against a problem, from any thread; a method that is not async runs in its own."""

    async def grade(self, problem: Problem, text: str) -> Grade:
        """Judge one text. Never raises because of the text's content; a fault gives an UNKNOWN grade."""


@dataclass(frozen=True, slots=True)
class Ratings:
    """A reward model's scores in [0, 1], None where it gave none, and the tokens that it sampled for them."""

    scores: tuple[float | None, ...]
    tokens: int = 0


@runtime_checkable
class RewardModel(Protocol):
    """Rates solutions without knowing the reference: a classifier, a judge, a function of the text."""

    async def rate(self, statement: str, texts: Sequence[str], seed: int) -> Ratings:
        """Rate solutions of one problem; a `mars_env.errors.ModelError` makes the tree faulty."""


class Reward(Protocol):
    """The reward of one turn, a pure function of the stored tree; sync or async.

    None means unknown (the grade is UNKNOWN): the turn then leaves its group, as it does if the reward raises
    or returns anything but a finite number (docs/faults.md).
    """

    def __call__(
        self, turn: Turn, path: Sequence[Turn], problem: Problem
    ) -> float | Awaitable[float | None] | None:
        """Reward `turn`; `path` is the turns from the root down to its parent."""


class TeamReward(Protocol):
    """Rewards that need the whole tree; sync or async."""

    def __call__(self, tree: Tree) -> Mapping[str, float | None] | Awaitable[Mapping[str, float | None]]:
        """New rewards by turn id; turns that it omits keep theirs."""
