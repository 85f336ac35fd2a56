"""A fleet of workers, graders and engines on Ray, driven by this process."""

import asyncio
import importlib
import os
import socket
import warnings
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Literal, Self

from mars_env.distributed import hosts
from mars_env.distributed.dispatch import CannotStart, OnActing, WorkerHandle, WorkerLost, dispatch
from mars_env.distributed.settings import Place, Placement
from mars_env.distributed.worker import (
    Assignment,
    Change,
    CheckAgents,
    MakeAgents,
    MakeGame,
    RunContext,
    Worker,
    WorkerReport,
    check_team,
    unchanged,
)
from mars_env.envs.contexts import longest_statement
from mars_env.errors import ConfigError, MarsError
from mars_env.lazy import needs
from mars_env.rollout.engine import Job, Journal, OnTurns
from mars_env.text import logger
from mars_env.types import Problem, Tree

log = logger(__name__)

_START_ATTEMPTS = 3
"""How often in a row a worker may end during its start."""
_CONCURRENT_CALLS = 100_000
"""Calls that one process accepts at the same time: more than are ever made, since Ray would queue others."""
_OBJECT_STORE = 100 * 2**20
"""Bytes of shared memory of a Ray that is started here. Records are small and do not need it."""
_CONNECT_SECONDS = 10.0
"""Seconds within which a cluster must answer at its address."""
_STOP_SECONDS = 10.0
"""Seconds within which engines must stop before they are killed."""


class Fleet:
    """Plays trees on a Ray cluster, or on this machine, with the same engine as in one process.

    Games and agents are not sent to the workers: `make_game` and `make_agents` are sent, and make them there.
    They can be functions of a module, a `functools.partial` of one, or functions of the script.

    Use it as an async context manager. It uses the Ray that this process is connected to. If there is none,
    it joins the Ray at the placement's address or at the environment's RAY_ADDRESS. Without an address it
    starts a Ray on this machine, and stops it at the end.

    Raises:
        MissingExtra: Ray is not installed.
        ConfigError: The functions cannot be sent to other processes.
    """

    def __init__(
        self, make_game: MakeGame, make_agents: MakeAgents, placement: Placement | None = None
    ) -> None:
        self.placement = placement or Placement()
        self._make_game, self._make_agents = make_game, make_agents
        self._ray = load_ray()
        _check_sendable(self._ray, make_game, make_agents)
        self._workers: list[_RayWorker] = []
        self._hosts: list[Any] = []
        self._engines: list[Any] = []
        self._pids: dict[str, list[int]] = {}
        self._started_ray = False
        self._playing = False

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self._connect)
            make_game, make_agents = await self._start_servers()
        except BaseException:
            await self.aclose()
            raise
        self._workers = [
            _RayWorker(self._ray, self.placement, make_game, make_agents)
            for _ in range(self.placement.workers.count)
        ]
        for worker in self._workers:
            worker.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End all processes of the fleet, and the Ray if the fleet started it."""
        if self._ray.is_initialized():
            for worker in self._workers:
                worker.stop()
            closing = [engine.close.remote() for engine in self._engines]
            with suppress(Exception):  # whatever does not stop is killed next
                await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), _STOP_SECONDS)
            for host in self._hosts:
                self._ray.kill(host, no_restart=True)
            if self._started_ray:
                await asyncio.to_thread(self._ray.shutdown)
        self._workers, self._hosts, self._engines, self._started_ray = [], [], [], False

    def pids(self, kind: Literal["worker", "grader", "engine"] = "worker") -> list[int]:
        """Process ids of the workers that are running, or of graders or engines as they were started."""
        if kind == "worker":
            return [worker.pid for worker in self._workers if worker.pid]
        return list(self._pids.get(kind, ()))

    async def check(self, problems: Sequence[Problem], check_agents: CheckAgents) -> None:
        """Reject agents whose prompts can leave less room than their limits, or that `check_agents` rejects.

        They are checked where they are made: in an engine's process, or else in a worker's. If no worker can
        be started, nothing is rejected: `play_all` says why.
        """
        longest = longest_statement(problems)
        if self._engines:
            check = self._engines[0].apply.remote(check_team, self._make_game, longest, check_agents)
        elif (worker := await self._first_worker()) is not None:
            check = worker.check.remote(longest, check_agents)
        else:
            return
        with suppress(WorkerLost):  # `play_all` starts another
            await _wait_until_loaded(check, "process", self.placement)

    async def _first_worker(self) -> Any:
        """A worker that has started; None if none can be started."""
        for worker in self._workers:  # they start at the same time
            with suppress(MarsError):
                await asyncio.shield(worker.start())
                return worker.actor
        return None

    async def play_all(
        self,
        jobs: Iterable[Job],
        *,
        seed: int,
        concurrency: int = 64,
        journal: Journal | None = None,
        change: Change = unchanged,
        on_turns: OnTurns | None = None,
        on_acting: OnActing | None = None,
    ) -> AsyncGenerator[Tree]:
        """Play many trees, at most `concurrency` at the same time; yields each as soon as it is finished.

        The trees are the same as those of `mars_env.rollout.play_all`, and so are arguments and errors. If a
        worker is lost, only its unfinished turns are: they are played again.

        All jobs are read at the start. `change` makes the run's game from the fleet's own, at the workers;
        `on_acting` gets a worker's number and its acts under way, by agent.

        Raises:
            CannotStart: The cluster has no room for a single worker, or none can be started.
        """
        if not self._workers:
            raise ConfigError("a Fleet plays only inside its context: async with Fleet(...) as fleet")
        if self._playing:
            raise ConfigError("this fleet has a run under way: it plays one at a time")
        self._playing = True
        try:
            trees = dispatch(
                self._workers, jobs, RunContext(seed, change, self.placement.attempts),
                concurrency=concurrency, journal=journal, on_turns=on_turns, on_acting=on_acting,
            )  # fmt: skip
            async with aclosing(trees):
                async for tree in trees:
                    yield tree
        finally:
            self._playing = False

    def _connect(self) -> None:
        ray, placement = self._ray, self.placement
        if ray.is_initialized():
            return
        settings: dict[str, Any] = {"runtime_env": dict(placement.runtime_env), "logging_level": "ERROR"}
        warnings.filterwarnings("ignore", "Tip: In future versions of Ray", FutureWarning)
        address = placement.address or os.environ.get("RAY_ADDRESS")
        if address:
            _check_address(address)
        else:
            for name in ("RAY_USAGE_STATS_ENABLED", "RAY_SCHEDULER_EVENTS"):  # no reports, fewer messages
                os.environ.setdefault(name, "0")
            cpus = placement.local_cpus or placement.cpus
            settings |= {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": _OBJECT_STORE}
        try:
            ray.init(address=address or "local", **settings)
        except (ConnectionError, RuntimeError, ValueError) as error:
            what = f"the Ray at {address} cannot be joined" if address else "Ray cannot be started here"
            raise ConfigError(f"{what}: {hosts.first_line(error)}") from error
        self._started_ray = True

    async def _start_servers(self) -> tuple[MakeGame, MakeAgents]:
        """Start graders and engines; returns what makes the workers' games and agents."""
        make_game, make_agents = self._make_game, self._make_agents
        place = self.placement.graders
        if place.count:
            graders = await self._start_hosts("grader", place, partial(hosts.graders_of, make_game))
            make_game = partial(hosts.with_remote_graders, make_game, hosts.Processes(graders))
        place = self.placement.engines
        if place.count:
            self._engines = await self._start_hosts("engine", place, make_agents)
            policies = await self._engines[0].apply.remote(hosts.policies_of)
            make_agents = partial(hosts.remote_agents, hosts.Processes(self._engines), policies)
        return make_game, make_agents

    async def _start_hosts(self, kind: str, place: Place, make: Any) -> list[Any]:
        """Start processes of one kind and wait until they have loaded; Ray restarts those that are lost."""
        options = {**_options(place), "max_restarts": -1}
        actors = [self._ray.remote(hosts.Host).options(**options).remote(make) for _ in range(place.count)]
        self._hosts += actors
        placement = self.placement
        started = (_wait_until_started(self._ray, actor, kind, place, placement) for actor in actors)
        self._pids[kind] = await asyncio.gather(*started)
        await asyncio.gather(*(_wait_until_loaded(actor.load.remote(), kind, placement) for actor in actors))
        return actors


class _RayWorker(WorkerHandle):
    """A worker on Ray, replaced if it is lost; `actor` is Ray's handle."""

    def __init__(self, ray: Any, placement: Placement, make_game: MakeGame, make_agents: MakeAgents) -> None:
        self._ray, self._placement = ray, placement
        self._make_game, self._make_agents = make_game, make_agents
        self.actor: Any = None
        self._starting: asyncio.Task[None] | None = None
        self.pid = 0

    def start(self) -> asyncio.Task[None]:
        """Start a worker unless there is one. The start continues even if its caller is cancelled."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        return self._starting

    async def begin(self, run: RunContext) -> None:
        """See `WorkerHandle`."""
        for _ in range(_START_ATTEMPTS):
            try:
                await asyncio.shield(self.start())
                await self._answer(self.actor.begin.remote(run))
                return
            except CannotStart:
                self.stop()
                raise
            except WorkerLost as lost:
                self.stop()
                why = lost
        raise CannotStart(f"a worker was started {_START_ATTEMPTS} times and ended each time: {why}")

    async def exchange(self, assignments: Sequence[Assignment]) -> WorkerReport:
        """See `WorkerHandle`."""
        return await self._answer(self.actor.exchange.remote(assignments))

    async def discard(self) -> None:
        """See `WorkerHandle`: the worker is stopped; the next run gets a fresh one."""
        self.stop()

    def stop(self) -> None:
        """Stop the worker, if there is one."""
        actor, self.actor, self.pid = self.actor, None, 0
        starting, self._starting = self._starting, None
        if starting is not None and not starting.cancel() and not starting.cancelled():
            starting.exception()  # whoever waited for it has seen the exception
        if actor is not None:
            self._ray.kill(actor, no_restart=True)

    async def _start(self) -> None:
        place = self._placement.workers
        self.actor = actor = self._ray.remote(Worker).options(**_options(place)).remote()
        pid = await _wait_until_started(self._ray, actor, "worker", place, self._placement)
        made = actor.setup.remote(self._make_game, self._make_agents)
        await _wait_until_loaded(made, "worker", self._placement)
        self.pid = pid

    async def _answer(self, ref: Awaitable[Any]) -> Any:
        """The worker's answer. If it does not come in time, or the process has ended, the worker is lost."""
        silence, who = self._placement.silence_seconds, f"the worker with process id {self.pid} is lost"
        try:
            return await _answer(ref, silence, WorkerLost(f"{who} (no answer for {silence:g} s)"), who)
        except WorkerLost:
            self.stop()
            raise


def load_ray() -> Any:
    """The module ray."""
    with needs("ray", "rollouts on several machines need Ray"):
        return importlib.import_module("ray")


def _check_address(address: str) -> None:
    """Test an address first, since Ray itself would try for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdigit():
        return  # "auto" and the like
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        raise ConfigError(f"no Ray answers at {address} ({error}): start it there (ray start)") from error


def _options(place: Place) -> dict[str, Any]:
    """Ray's options for processes of a place; they are spread over the machines that qualify."""
    options: dict[str, Any] = {
        "num_cpus": place.cpus,
        "num_gpus": place.gpus,
        "resources": dict(place.resources),
        "max_concurrency": _CONCURRENT_CALLS,
        "scheduling_strategy": "SPREAD",
    }
    return {**options, "label_selector": dict(place.labels)} if place.labels else options


def _check_sendable(ray: Any, *functions: Any) -> None:
    """Reject functions that cannot be sent to other processes."""
    try:
        ray.cloudpickle.dumps(functions)
    except Exception as error:  # an object's own pickling may raise anything
        why = f"these agents or graders cannot be sent to other processes: {hosts.first_line(error)}"
        raise ConfigError(f"{why}: name them ('module:object'), and they are made there") from error


async def _wait_until_started(ray: Any, actor: Any, kind: str, place: Place, placement: Placement) -> int:
    """Wait until a process has started; returns its process id."""
    late = CannotStart(f"no {kind} could be started within {placement.wait_seconds:g} s")
    ended = f"a {kind} ended while it started"
    try:
        pid: int = await _answer(actor.process_id.remote(), placement.wait_seconds, late, ended)
    except CannotStart as error:
        asked = f"{place.count} {kind}{'s' if place.count > 1 else ''} with {place.describe()} each"
        there = await asyncio.to_thread(_inventory, ray)
        raise CannotStart(f"{error}: asked for: {asked}; {there}: ask for less, or add machines") from None
    return pid


async def _wait_until_loaded(ref: Awaitable[Any], kind: str, placement: Placement) -> None:
    """Wait until a process has loaded what it needs."""
    late = CannotStart(f"a {kind} did not load within {placement.load_seconds:g} s")
    await _answer(ref, placement.load_seconds, late, f"a {kind} ended while it loaded")


async def _answer(ref: Awaitable[Any], seconds: float, late: MarsError, ended: str) -> Any:
    """What a process answers within so many seconds; else raises `late`, or that the process has ended."""
    from ray.exceptions import RayActorError, RayTaskError

    try:
        async with asyncio.timeout(seconds):
            return await ref
    except TimeoutError:
        raise late from None
    except RayTaskError as error:
        cause = hosts.cause_of(error)
        why = f"a process of the cluster failed: {type(cause).__name__}: {hosts.first_line(cause)}"
        raise (cause if isinstance(cause, MarsError) else MarsError(why)) from error
    except RayActorError as error:
        raise WorkerLost(f"{ended} ({hosts.first_line(error)})") from error


def _inventory(ray: Any) -> str:
    """What the cluster has, in words."""
    machines = [node for node in ray.nodes() if node["Alive"]]
    whole, free = ray.cluster_resources(), ray.available_resources()
    names = sorted(name for name in whole if ":" not in name and "memory" not in name)
    amounts = ", ".join(f"{whole[name]:g} {name} ({free.get(name, 0.0):g} free)" for name in names)
    labels = sorted({f"{k}={v}" for node in machines for k, v in (node.get("Labels") or {}).items()
                     if not k.startswith("ray.io/")})  # fmt: skip
    said = f", labels {', '.join(labels)}" if labels else ""
    return f"the cluster has {amounts or 'no CPU'}{said} on {len(machines)} machine(s)"
