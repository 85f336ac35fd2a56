"""Processes that act and grade for a driver: teams with their models, graders with their sandboxes.

A `Host` runs in each of them. The driver reaches them through a `RemoteGrader` or a `RemoteAgent`.
"""

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from mars_env.envs.game import Game
from mars_env.errors import ModelError
from mars_env.players import validate_playable
from mars_env.rollout.contexts import require_room
from mars_env.sync import maybe_await
from mars_env.text import first_line
from mars_env.types import Action, Agent, Grade, Grader, Observation, Problem

MakeGame = Callable[[], Game]
MakeAgents = Callable[[], Mapping[str, Agent]]
CheckAgents = Callable[[Mapping[str, Agent], Game], Awaitable[None]]
"""Rejects agents before a run; it must be a function that can be sent to processes."""

_ATTEMPTS, _BACKOFF = 8, 0.5
"""How often a call is tried, and the seconds before the second attempt."""

Which = Literal["own", "evaluation", "search"]
"""The game's own grader, that of an evaluation, which may be another one (`RubricGrader`), or a search's."""


class Host:
    """What a function makes, by name, in a process: graders, or a team with its models.

    It is made at the first use, so a restart needs no further call.
    """

    def __init__(self, make: Callable[[], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]) -> None:
        self._make, self._loading = make, asyncio.Lock()
        self._objects: Mapping[str, Any] | None = None

    async def process_id(self) -> int:
        """The id of the process, once it is running."""
        return os.getpid()

    async def load(self) -> Mapping[str, Any]:
        """All of it, made now if it was not before."""
        async with self._loading:
            if self._objects is None:
                self._objects = await maybe_await(self._make())
        return self._objects

    async def ready(self) -> None:
        """Wait until all of it is made."""
        await self.load()

    async def call(self, name: str, method: str, *args: Any) -> Any:
        """Call a method of one of them."""
        return await getattr((await self.load())[name], method)(*args)

    async def apply(self, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """What a function gives of all of them."""
        return await function(await self.load(), *args)

    async def close(self) -> None:
        """Stop engines that run in other processes."""
        objects = (self._objects or {}).values()
        models = {id(model): model for owner in objects if (model := getattr(owner, "model", 0))}
        for model in models.values():
            if hasattr(model, "close"):
                await maybe_await(model.close())


def graders_of(make_game: MakeGame) -> dict[str, Grader]:
    """The graders of a game by name."""
    game = make_game()
    grader: Any = game.grader
    evaluating = grader.for_evaluation() if hasattr(grader, "for_evaluation") else grader
    search = None if game.visibility is None else game.visibility.grader
    graders: dict[Which, Grader] = {"own": grader, "evaluation": evaluating, "search": search or grader}
    return {_grader_name(which): grader for which, grader in graders.items()}


def _grader_name(which: Which) -> str:
    return f"grader: {which}"  # which is none of an agent


def worker_of(make_game: MakeGame | None, make_agents: MakeAgents) -> dict[str, Any]:
    """The agents of a worker, and the graders of a game unless others grade."""
    graders = {} if make_game is None else graders_of(make_game)
    return {**make_agents(), **graders}


async def policies_of(host: Mapping[str, Any]) -> dict[str, str]:
    """The policies of a host's agents by name."""
    agents = _agents_of(host)
    validate_playable(agents, "a worker")
    return {name: agent.policy for name, agent in agents.items()}


async def check_team(
    host: Mapping[str, Any], make_game: MakeGame, problems: Sequence[Problem], check: CheckAgents
) -> None:
    """Reject agents before they play, also by `mars_env.rollout.contexts.require_room`."""
    agents, game = _agents_of(host), make_game()
    await check(agents, game)
    await require_room(game.rules, agents, problems, game.grader)


def _agents_of(host: Mapping[str, Any]) -> dict[str, Agent]:
    return {name: agent for name, agent in host.items() if isinstance(agent, Agent)}


class Processes:
    """Calls processes of one kind, the least busy first. If one is lost, the call is repeated.

    A process that was lost gets no calls for a while, in which it restarts.
    """

    def __init__(self) -> None:
        self.handles: list[Any] = []
        self._busy: list[int] = []
        self._paused_until: list[float] = []
        self._calls = itertools.count()

    def add(self, handle: Any) -> None:
        """Call this one, too, from now on."""
        self.handles.append(handle)
        self._busy.append(0)
        self._paused_until.append(0.0)

    async def pids(self) -> list[int]:
        """The process ids of those that answer now."""
        ids = await asyncio.gather(*(h.process_id.remote() for h in self.handles), return_exceptions=True)
        return [pid for pid in ids if isinstance(pid, int)]

    async def call(self, name: str, method: str, *args: Any) -> Any:
        """`Host.call` in one of them; raises what it raised, ModelError if the process was always lost."""
        return await self._answer("call", name, method, *args)

    async def apply(self, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """`Host.apply` in one of them; raises as `call` does."""
        return await self._answer("apply", function, *args)

    async def _answer(self, method: str, *args: Any) -> Any:
        from ray.exceptions import RayActorError, RayTaskError

        why = ""
        for attempt in range(_ATTEMPTS):
            i = self._choose()
            await asyncio.sleep(self._paused_until[i] - time.monotonic())
            self._busy[i] += 1
            try:
                return await cancelling(getattr(self.handles[i], method).remote(*args))
            except RayTaskError as error:
                raise cause_of(error) from error
            except RayActorError as error:
                why = first_line(str(error))
                pause = time.monotonic() + _BACKOFF * 2**attempt
                self._paused_until[i] = max(self._paused_until[i], pause)
            finally:
                self._busy[i] -= 1
        raise ModelError(f"the process was lost in each of {_ATTEMPTS} attempts: {why}")

    def _choose(self) -> int:
        """The least busy that is not paused, in turn among equals; else the one whose pause ends first."""
        now, first, count = time.monotonic(), next(self._calls), len(self.handles)
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
            return await self.processes.call(_grader_name(self.which), "grade", problem, text)
        except ModelError as error:
            return Grade.unknown(f"grading on the cluster: {error}")


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
    """A game whose graders are in other processes."""
    game = make_game()
    visibility = game.visibility
    if visibility is not None and visibility.grader is not None:
        visibility = replace(visibility, grader=RemoteGrader(processes, "search"))
    return replace(game, grader=RemoteGrader(processes), visibility=visibility)


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
