"""The rules of a game: pure functions over frozen states, in the style of OpenSpiel."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

from gymnasium import Space

from mars_env.text import shown
from mars_env.types import Action, Grade, Observation, Problem

S = TypeVar("S")


class Rules(Protocol[S]):
    """A multi-agent environment; one object plays any number of episodes at the same time."""

    @property
    def possible_agents(self) -> tuple[str, ...]:
        """All agents, named ``"<role>_<number>"`` as PettingZoo recommends."""

    @property
    def max_turns(self) -> int:
        """The most turns that an episode can have."""

    def fields(self, agent: str) -> Mapping[str, Space[Any]]:
        """The spaces of the agent's observation, by field name (none may be "observation")."""

    def start(self, problem: Problem) -> S:
        """The state before the first turn."""

    def current_agent(self, state: S) -> str | None:
        """Whose turn it is; None when the episode is over."""

    def observe(self, state: S, agent: str) -> Observation:
        """What the agent sees, whether or not it is its turn. Never holds the reference."""

    def submission(self, state: S, action: Action) -> str | None:
        """The text that the grader judges after this action; None if it is not to be graded."""

    def note(self, state: S, action: Action) -> Mapping[str, Any]:
        """Plain data to record with the turn (a verdict read from it, the round ...)."""

    def apply(self, state: S, action: Action, grade: Grade | None) -> S:
        """The state after the action. The grade must never reach an observation."""

    def final(self, state: S) -> int | None:
        """Which of the submissions so far, in their order, is the team's answer."""


def unfit_rules(rules: object) -> str:
    """What an object lacks to be `Rules`; empty if nothing."""
    if isinstance(rules, type):
        return f"{rules.__name__} is a class: give rules, {rules.__name__}()"
    lacking = [name for name in ("possible_agents", "max_turns") if not hasattr(rules, name)]
    lacking += [name for name in _METHODS if not callable(getattr(rules, name, None))]
    return f"{shown(rules)} is not a set of rules: it lacks {', '.join(lacking)}" if lacking else ""


_METHODS = ("fields", "start", "current_agent", "observe", "submission", "note", "apply", "final")


class TakesFeedback(Rules[S], Protocol[S]):
    """Rules whose agents may read feedback on their submissions, as far as `Game.visibility` allows."""

    def with_feedback(self, state: S, feedback: str) -> S:
        """The state after a submission, with its feedback; the same state if the feedback is empty.

        Called after each `apply`. `mars_env.envs.visibility` says where feedback comes from.
        """


@runtime_checkable
class PosesProblems(Protocol):
    """Rules whose agents make the problem: their submissions are graded on it."""

    def posed(self, state: Any) -> Problem:
        """The problem that was made, with the reference that was made for it."""


@runtime_checkable
class HasRoles(Protocol):
    """Rules with their own agents: a model in one of their places gets that agent's prompts."""

    @property
    def roles_from(self) -> str:
        """Where the agents' classes are by role, as ``"module:attribute"``; rules themselves import none."""
