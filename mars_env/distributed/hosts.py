"""Processes that serve workers: graders with their sandboxes, engines with the agents and their models.

A `Host` runs in each of those processes. A worker reaches them through a `RemoteGrader` or a
`RemoteAgent`, which behave as any grader or agent does and call one of the `Processes`.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from mars_env.distributed.worker import MakeGame, Process
from mars_env.envs.game import Game
from mars_env.errors import ModelError
from mars_env.sync import maybe_await
from mars_env.types import Action, Agent, Grade, Grader, Observation, Problem

_ATTEMPTS, _BACKOFF = 8, 0.5
"""How often a call is tried, and the seconds before the second attempt."""

Which = Literal["own", "evaluation", "search"]
"""The game's own grader, that of an evaluation, which may be another one (`RubricGrader`), or a search's."""


class Host(Process):
    """What a function makes, by name, in a process: graders, or a team with its models.

    It is made at the first use, so a restart needs no further call.
    """

    def __init__(self, make: Callable[[], Mapping[str, Any]]) -> None:
        self._make = make

    async def load(self) -> None:
        """Make all of it now."""
        self._made  # noqa: B018 (made here)

    async def call(self, name: str, method: str, *args: Any) -> Any:
        """Call a method of one of them."""
        return await getattr(self._made[name], method)(*args)

    async def apply(self, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """What a function gives of all of them."""
        return await function(self._made, *args)

    async def close(self) -> None:
        """Stop engines that run in other processes."""
        models = {
            id(m): m for each in vars(self).get("_made", {}).values() if (m := getattr(each, "model", 0))
        }
        for model in models.values():
            if hasattr(model, "close"):
                await maybe_await(model.close())

    @cached_property
    def _made(self) -> Mapping[str, Any]:
        return self._make()


def graders_of(make_game: MakeGame) -> dict[Which, Grader]:
    """The graders of a game."""
    game = make_game()
    own: Any = game.grader
    evaluating = own.for_evaluation() if hasattr(own, "for_evaluation") else own
    search = None if game.visibility is None else game.visibility.grader
    return {"own": own, "evaluation": evaluating, "search": search or own}


async def policies_of(agents: Mapping[str, Agent]) -> dict[str, str]:
    """The agents' policies by name."""
    return {name: agent.policy for name, agent in agents.items()}


class Processes:
    """Calls processes of one kind, the least busy first. If one is lost, the call is repeated.

    A process that was lost gets no calls for a while, in which it restarts, twice as long after each further
    attempt of a call.
    """

    def __init__(self, handles: Sequence[Any]) -> None:
        self._handles = tuple(handles)
        self._busy = [0] * len(self._handles)
        self._paused_until = [0.0] * len(self._handles)
        self._calls = itertools.count()

    def __reduce__(self) -> Any:
        return Processes, (self._handles,)

    async def call(self, name: str, method: str, *args: Any) -> Any:
        """`Host.call` in one of them; raises what it raised, ModelError if the process was always lost."""
        from ray.exceptions import RayActorError, RayTaskError

        why = ""
        for attempt in range(_ATTEMPTS):
            i = self._choose()
            await asyncio.sleep(self._paused_until[i] - time.monotonic())
            self._busy[i] += 1
            try:
                return await cancelling(self._handles[i].call.remote(name, method, *args))
            except RayTaskError as error:
                raise cause_of(error) from error
            except RayActorError as error:
                why = first_line(error)
                pause = time.monotonic() + _BACKOFF * 2**attempt
                self._paused_until[i] = max(self._paused_until[i], pause)
            finally:
                self._busy[i] -= 1
        raise ModelError(f"the process was lost in each of {_ATTEMPTS} attempts: {why}")

    def _choose(self) -> int:
        """The least busy that is not paused, in turn among equals; else the one whose pause ends first."""
        now, first, count = time.monotonic(), next(self._calls), len(self._handles)
        return min(
            range(count),
            key=lambda i: (max(0.0, self._paused_until[i] - now), self._busy[i], (i - first) % count),
        )


@dataclass(frozen=True, slots=True)
class RemoteGrader:
    """A grader in other processes: one of `graders_of` the game."""

    processes: Processes
    which: Which = "own"

    def for_evaluation(self) -> "RemoteGrader":
        """The grader of an evaluation, there."""
        return replace(self, which="evaluation")

    async def grade(self, problem: Problem, text: str) -> Grade:
        """Judge one text there. If the process is lost, that is a machinery fault: the grade is UNKNOWN."""
        try:
            grade: Grade = await self.processes.call(self.which, "grade", problem, text)
        except ModelError as error:
            return Grade.unknown(f"grading on the cluster: {error}")
        return grade


@dataclass(frozen=True, slots=True)
class RemoteAgent:
    """An agent in other processes."""

    processes: Processes
    name: str
    policy: str

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Act there."""
        return await self.processes.call(self.name, "act", dict(observation), n, seed)


def with_remote_graders(make_game: MakeGame, processes: Processes) -> Game:
    """A game whose graders run in other processes."""
    game = make_game()
    visibility = game.visibility
    if visibility is not None and visibility.grader is not None:
        visibility = replace(visibility, grader=RemoteGrader(processes, "search"))
    return replace(game, grader=RemoteGrader(processes), visibility=visibility)


def remote_agents(processes: Processes, policies: Mapping[str, str]) -> dict[str, Agent]:
    """Agents that run in other processes, from their policies by name."""
    return {name: RemoteAgent(processes, name, policy) for name, policy in policies.items()}


async def cancelling(ref: Any) -> Any:
    """The result of a call to a process. If it is cancelled here, it is cancelled there, too."""
    try:
        return await ref
    except asyncio.CancelledError:
        import ray

        with suppress(Exception):  # the call or its process may have ended: then there is nothing to cancel
            ray.cancel(ref)
        raise


def cause_of(error: Any) -> BaseException:
    """The exception that was raised in the other process."""
    cause = error.cause
    return cause if isinstance(cause, BaseException) else error


def first_line(error: BaseException) -> str:
    """The first line of an error of Ray."""
    return " ".join(str(error).split("\n")[0].split())
