"""Ray itself: joining or starting it, and starting processes on it. Evaluations and trainings share this."""

import asyncio
import importlib
import math
import os
import socket
import warnings
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any, Self

from mars_env.distributed import hosts
from mars_env.distributed.settings import Place, RaySettings
from mars_env.errors import ConfigError, MarsError
from mars_env.lazy import needs
from mars_env.sync import end_tasks
from mars_env.text import first_line, logger

log = logger(__name__)

_CONCURRENT_CALLS = 100_000
"""Calls that one process accepts at the same time: more than are ever made, since Ray would queue others."""
_CONNECT_SECONDS = 10.0
_STOP_SECONDS = 10.0
"""Engines that have not stopped by then are killed."""
_WATCH_SECONDS = 2.0
"""Between two questions to a process whether it answers."""


class CannotStart(MarsError):
    """A process cannot be started: the cluster has no room, or the process ends while it starts."""


class Cluster(ABC):
    """Processes (`hosts.Host`) on the Ray that this process is connected to, until the context ends.

    Without such a Ray it joins the one at the settings' address or at the environment's RAY_ADDRESS. Without
    an address it starts a Ray on this machine, with `object_store` bytes of shared memory, and stops it at
    the end.
    """

    def __init__(
        self, settings: RaySettings, places: Sequence[Place], object_store: int | None = None
    ) -> None:
        self.settings, self.ray = settings, load_ray()
        self._places, self._object_store = places, object_store
        self._hosts: list[Any] = []
        self._loaded: list[Any] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._started_ray = False

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self._connect)
            await self.start()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    @abstractmethod
    async def start(self) -> None:
        """Start the processes, by `start_processes`."""

    def _connect(self) -> None:
        if self.ray.is_initialized():
            return
        options: dict[str, Any] = {"runtime_env": dict(self.settings.runtime_env), "logging_level": "ERROR"}
        warnings.filterwarnings("ignore", "Tip: In future versions of Ray", FutureWarning)
        address = self.settings.address or os.environ.get("RAY_ADDRESS")
        if address:
            _check_address(address)
        else:
            for name in ("RAY_USAGE_STATS_ENABLED", "RAY_SCHEDULER_EVENTS"):  # no reports, fewer messages
                os.environ.setdefault(name, "0")
            cpus = max(1, math.ceil(sum(place.count * place.cpus for place in self._places)))
            options |= {
                "num_cpus": cpus, "include_dashboard": False, "object_store_memory": self._object_store
            }  # fmt: skip
        what = f"the Ray at {address} cannot be joined" if address else "Ray cannot be started here"
        try:
            self.ray.init(address=address or "local", **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigError(f"{what}: {first_line(str(error))}") from error
        self._started_ray = True

    async def start_processes(self, kind: str, place: Place, make: Any) -> hosts.Processes:
        """Start processes of one kind; what `make` makes is in each of them.

        It returns as soon as one has loaded; the others join it when they have. One that is lost, or does not
        answer for `RaySettings.silence_seconds`, is replaced by Ray. A `CannotStart` if none loads.
        """
        host = self.ray.remote(hosts.Host).options(**_actor_options(place))
        actors = [host.remote(make) for _ in range(place.count)]
        self._hosts += actors
        processes = hosts.Processes()
        starting = [asyncio.create_task(self._start_one(processes, kind, place, actor)) for actor in actors]
        self._tasks += starting
        waiting = set(starting)
        while waiting and not processes.handles:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if not isinstance(task.exception(), CannotStart | None):
                    task.result()
        if not processes.handles:
            starting[0].result()
        return processes

    async def _start_one(self, processes: hosts.Processes, kind: str, place: Place, actor: Any) -> None:
        try:
            await self._wait_until_started(actor, kind, place)
            seconds = self.settings.load_seconds
            late = CannotStart(f"a {kind} did not load within {seconds:g} s")
            await _answer_of(actor.ready.remote(), seconds, late, f"a {kind} ended while it loaded")
        except CannotStart as error:
            log.warning("%s; the others continue", error)
            self.ray.kill(actor, no_restart=True)
            raise
        self._loaded.append(actor)
        processes.add(actor)
        self._tasks.append(asyncio.create_task(self._watch(kind, actor)))

    async def _watch(self, kind: str, actor: Any) -> None:
        """Kill a process that does not answer. Ray starts another in its place, which loads what it needs."""
        from ray.exceptions import RayError

        silence = self.settings.silence_seconds
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            try:
                async with asyncio.timeout(silence):
                    await actor.process_id.remote()
                continue
            except TimeoutError:
                log.warning("a %s has not answered for %g s: it is replaced", kind, silence)
                self.ray.kill(actor, no_restart=False)
            except RayError:
                log.warning("a %s is lost: it is replaced", kind)
            with suppress(RayError):  # lost again
                await actor.ready.remote()

    async def _wait_until_started(self, actor: Any, kind: str, place: Place) -> None:
        seconds = self.settings.wait_seconds
        late = CannotStart(f"no {kind} could be started within {seconds:g} s")
        try:
            await _answer_of(actor.process_id.remote(), seconds, late, f"a {kind} ended while it started")
        except CannotStart as error:
            request = f"{place.count} {kind}{'s' if place.count > 1 else ''} with {place.describe()} each"
            inventory = await asyncio.to_thread(_inventory, self.ray)
            raise CannotStart(
                f"{error}: asked for: {request}; {inventory}: ask for less, or add machines"
            ) from None

    async def _close(self) -> None:
        await end_tasks(self._tasks)
        if not self.ray.is_initialized():
            return
        closing = [host.close.remote() for host in self._loaded]
        with suppress(Exception):  # whatever does not stop is killed next
            await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), _STOP_SECONDS)
        for host in self._hosts:
            self.ray.kill(host, no_restart=True)
        if self._started_ray:
            await asyncio.to_thread(self.ray.shutdown)
        self._hosts, self._loaded, self._tasks, self._started_ray = [], [], [], False


def load_ray() -> Any:
    """The module, or a `MissingExtra`."""
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


def _actor_options(place: Place) -> dict[str, Any]:
    """Ray's options for processes of a place, which are replaced when they are lost."""
    options: dict[str, Any] = {
        "num_cpus": place.cpus,
        "num_gpus": place.gpus,
        "resources": dict(place.resources),
        "max_concurrency": _CONCURRENT_CALLS,
        "scheduling_strategy": "SPREAD",
        "max_restarts": -1,
    }
    return {**options, "label_selector": dict(place.labels)} if place.labels else options


def validate_sendable(ray: Any, *functions: Any) -> None:
    """Reject functions that cannot be sent to other processes."""
    try:
        ray.cloudpickle.dumps(functions)
    except Exception as error:  # an object's own pickling may raise anything
        why = f"these agents or graders cannot be sent to other processes: {first_line(str(error))}"
        raise ConfigError(f"{why}: name them ('module:object'), and they are made there") from error


async def _answer_of(ref: Awaitable[Any], seconds: float, late: MarsError, ended: str) -> Any:
    from ray.exceptions import RayActorError, RayTaskError

    try:
        async with asyncio.timeout(seconds):
            return await ref
    except TimeoutError:
        raise late from None
    except RayTaskError as error:
        cause = hosts.cause_of(error)
        why = f"a process of the cluster failed: {type(cause).__name__}: {first_line(str(cause))}"
        raise (cause if isinstance(cause, MarsError) else MarsError(why)) from error
    except RayActorError as error:
        raise CannotStart(f"{ended} ({first_line(str(error))})") from error


def _inventory(ray: Any) -> str:
    machines = [node for node in ray.nodes() if node["Alive"]]
    whole, free = ray.cluster_resources(), ray.available_resources()
    names = sorted(name for name in whole if ":" not in name and "memory" not in name)
    amounts = ", ".join(f"{whole[name]:g} {name} ({free.get(name, 0.0):g} free)" for name in names)
    labels = sorted({f"{k}={v}" for node in machines for k, v in (node.get("Labels") or {}).items()
                     if not k.startswith("ray.io/")})  # fmt: skip
    labelled = f", labels {', '.join(labels)}" if labels else ""
    return f"the cluster has {amounts or 'no CPU'}{labelled} on {len(machines)} machine(s)"
