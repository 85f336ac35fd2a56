"""`run_sampler`: acts for a learner that may be far away, with the weights that it publishes."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import aiohttp
from pydantic import BaseModel, PositiveFloat, PositiveInt, ValidationError
from yarl import URL

from mars_env.errors import ConfigError, ModelError, StoreError, explained
from mars_env.models.batching import whole_waves
from mars_env.models.preflight import preflight
from mars_env.net import NETWORK_ERRORS, session
from mars_env.text import describe_error, logger, one_line
from mars_env.trainers.checks import check_agents
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.samplers import Refreshable
from mars_env.trainers.swarm import wire
from mars_env.trainers.swarm.weights import Publication, Tensors, Weights, read_tensors
from mars_env.types import Agent

log = logger(__name__)

T = TypeVar("T")

_MESSAGE_BYTES = 64 * 2**20
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=120)
_HEARTBEAT = 30.0
_SLOWEST_RETRY = 10.0
_RECONNECT = 0.1  # seconds before a sampler connects, or fetches weights, again
_FAREWELL = 2.0  # seconds in which a sampler that is stopped tells its learner


class SamplerSettings(BaseModel, frozen=True, extra="forbid"):
    """How a sampler works."""

    concurrency: PositiveInt = 64
    """Most acts at the same time."""
    refresh: Literal["newest", "demanded"] = "newest"
    """``"newest"``: new weights are used as soon as they are here. ``"demanded"``: only when a turn needs
    them, and then the oldest that may act: so turns are as old as the bound allows, and a run repeats to the
    digit."""
    patience: PositiveFloat = 600.0
    """Seconds without a sign of the learner after which the sampler ends."""


class Connection:
    """A sampler's way to its learner, and to its weights (`mars_env.trainers.swarm.weights.Weights`).

    After network errors it tries again, with longer and longer pauses.

    Args:
        url: The learner's, such as ``"http://10.0.0.1:8700"``.
        key: One of its keys.
        patience: Seconds without any answer after which the learner counts as gone.
        file_bytes: Longest file of one policy's weights.

    Raises:
        ConfigError: The address is none.
    """

    def __init__(self, url: str, key: str = "", patience: float = 600.0, file_bytes: int = 2**44) -> None:
        with explained(ConfigError, f"{url!r} is not an address", ValueError):
            self._base = URL(url)
        if self._base.scheme not in ("http", "https") or not self._base.host:
            raise ConfigError(f"a learner's address is like http://10.0.0.1:8700, got {url!r}")
        self._patience, self._file_bytes = patience, file_bytes
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    def __str__(self) -> str:
        return str(self._base)

    async def socket(self) -> aiohttp.ClientWebSocketResponse:
        """Connect as a sampler.

        Raises:
            ConfigError: The learner rejects the sampler.
            ModelError: It is gone.
        """
        connect = partial(
            (await session()).ws_connect,
            self._base / "v1/sampler",
            headers=self._headers,
            heartbeat=max(_HEARTBEAT, self._patience),  # it may be busy, when it saves a checkpoint
            max_msg_size=_MESSAGE_BYTES,
            timeout=aiohttp.ClientWSTimeout(ws_close=_FAREWELL),
        )
        return await self._persistently(connect)

    async def fetch(self, publication: Publication) -> Tensors:
        """See `Weights`."""
        found = {}
        with tempfile.TemporaryDirectory(prefix="mars-env-weights-") as folder:
            for name, wanted in publication.policies.items():
                if wanted.size > self._file_bytes:
                    raise ConfigError(
                        f"the weights of {name} are announced with {wanted.size:,} bytes, where at most "
                        f"{self._file_bytes:,} are expected: does the sampler have the learner's model?"
                    )
                path = Path(folder) / f"{name}.safetensors"
                address = f"v1/weights/{publication.number}/{name}"
                await self._persistently(partial(self._download, address, path, wanted.size))
                found[name] = await asyncio.to_thread(read_tensors, path, wanted)
        return found

    async def _download(self, address: str, path: Path, size: int) -> None:
        """Write at most so many bytes into a file; one that breaks off does not pass its hash."""
        options: dict[str, Any] = {"headers": self._headers, "timeout": _TIMEOUT, "allow_redirects": False}
        async with (await session()).get(self._base / address, **options) as response:
            if response.status == 404:
                raise StoreError(f"the weights {address} are gone")
            if response.status != 200:
                raise aiohttp.ClientResponseError(
                    response.request_info, (), status=response.status, message=response.reason or ""
                )
            with path.open("wb") as file:
                async for part in response.content.iter_chunked(2**20):
                    if (size := size - len(part)) < 0:
                        raise StoreError(f"the weights {address} are longer than announced")
                    await asyncio.to_thread(file.write, part)

    async def _persistently(self, once: Callable[[], Awaitable[T]]) -> T:
        """What `once` returns, as soon as no network error prevents it."""
        began, pause = time.monotonic(), 0.1
        while True:
            try:
                return await once()
            except NETWORK_ERRORS as error:
                if isinstance(error, aiohttp.ClientResponseError) and 300 <= error.status < 500:
                    why = f"({error.status}) {one_line(error.message, 300)}: are address and key right?"
                    raise ConfigError(f"the learner at {self} rejects {why}") from error
                if time.monotonic() - began > self._patience:
                    why = describe_error(error)
                    raise ModelError(f"the learner {self} is gone for {self._patience:g} s: {why}") from error
            await asyncio.sleep(pause)
            pause = min(2 * pause, _SLOWEST_RETRY)


async def run_sampler(
    agents: Mapping[str, Agent],
    models: Mapping[str, Refreshable],
    url: str,
    settings: SamplerSettings | None = None,
    *,
    key: str = "",
    weights: Weights | None = None,
) -> int:
    """Act for a `Swarm` until its training is over.

    It survives a learner that is stopped and started again. Several samplers may run, on any machines.

    Args:
        agents: By name, as the learner names them.
        models: What new weights go to, by the policies' names.
        url: The learner's address.
        settings: How much it does at a time, when it takes new weights, how long it waits.
        key: One of the learner's keys.
        weights: Where the weights come from; by default over HTTP from the learner. A `WeightStore` if the
            learner's folder can be read here.

    Returns:
        How many answers it gave.

    Raises:
        ConfigError: The learner rejects this sampler, or the weights do not fit the models.
        ModelError: The learner is gone.
    """
    for name, agent in agents.items():
        if agent.policy not in models:
            raise ConfigError(f"{name} acts with {agent.policy!r}, but no model has that name")
    check_agents(agents, TrainConfig(), door="a sampler")
    await preflight(agents, trained=agents)
    settings = settings or SamplerSettings()
    whole_waves()  # an answer does not depend on what else is asked meanwhile
    connection = Connection(url, key, settings.patience, _most_bytes(models))
    held = _Weights(dict(models), weights or connection, settings.refresh == "demanded")
    return await _Sampler(agents, connection, held, settings.concurrency).run()


class _Sampler:
    """A running sampler: answers the asks that the learner sends."""

    def __init__(
        self, agents: Mapping[str, Agent], connection: Connection, weights: "_Weights", concurrency: int
    ) -> None:
        self._agents, self._connection, self._weights = agents, connection, weights
        self._concurrency, self._given = concurrency, 0
        self._asks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> int:
        """Act until the training is over, through one connection after the other."""
        while True:
            async with await self._connection.socket() as socket:
                if await self._serve(socket):
                    return self._given
            log.warning("the connection to the learner at %s is lost; connecting again", self._connection)
            await asyncio.sleep(_RECONNECT)

    async def _serve(self, socket: aiohttp.ClientWebSocketResponse) -> bool:
        """Act until the connection ends; whether the training is over."""
        try:
            async with asyncio.TaskGroup() as tasks:
                follow = tasks.create_task(self._weights.follow(partial(_send, socket)))
                over = await self._listen(socket, tasks)
                for task in (follow, *self._asks.values()):  # a learner that comes back asks again
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return over

    async def _listen(self, socket: aiohttp.ClientWebSocketResponse, tasks: asyncio.TaskGroup) -> bool:
        policies = {name: agent.policy for name, agent in self._agents.items()}
        await _send(socket, wire.Hello(agents=policies, room=min(self._concurrency, wire.MOST)))
        async for message in socket:
            if message.type is aiohttp.WSMsgType.ERROR:
                break
            with explained(ConfigError, f"{self._connection} answers in another protocol", ValidationError):
                heard = wire.FROM_LEARNER.validate_json(message.data)
            match heard:
                case wire.News():
                    self._weights.announce(heard.publication)
                case wire.RemoteAct():
                    self._asks[heard.id] = tasks.create_task(self._answer(socket, heard))
                case wire.Drop() if heard.ask in self._asks:
                    self._asks[heard.ask].cancel()
                case wire.Bye():
                    if heard.why:
                        raise ConfigError(f"{self._connection} rejects it: {one_line(heard.why, 300)}")
                    return True
        return False

    async def _answer(self, socket: aiohttp.ClientWebSocketResponse, ask: wire.RemoteAct) -> None:
        try:
            async with self._weights.acting(ask.weights):
                actions = await self._agents[ask.agent].act(ask.observation, ask.n, ask.seed)
            give = wire.Give(ask=ask.id, actions=list(actions), busy=self._weights.lap())
            self._given += 1
        except Exception as error:  # the learner hears of it, and tries again, here or elsewhere
            log.warning("%s could not act: %s", one_line(ask.agent), describe_error(error))
            give = wire.Give(ask=ask.id, fault=describe_error(error))
        finally:
            del self._asks[ask.id]
        await _send(socket, give)


async def _send(socket: aiohttp.ClientWebSocketResponse, message: BaseModel) -> None:
    with contextlib.suppress(*NETWORK_ERRORS):  # whoever listens finds that the connection is lost
        await socket.send_str(message.model_dump_json())


class _Weights:
    """The weights of a sampler's models: received while they act, and used when they may be."""

    def __init__(self, models: Mapping[str, Refreshable], source: Weights, demanded: bool) -> None:
        self._models, self._source, self._demanded = models, source, demanded
        self._announced: Publication | None = None
        self._news = asyncio.Event()
        self._received: Publication | None = None  # the newest one
        self._ready: dict[int, tuple[Publication, Tensors]] = {}  # received, not used yet
        self._used: Publication | None = None
        self._demands: list[int] = []
        self._acting, self._busy, self._since = 0, 0.0, 0.0
        self._change = asyncio.Condition()

    def lap(self) -> float:
        """Seconds in which the models acted since this was last asked."""
        now = time.monotonic()
        busy = self._busy + (now - self._since if self._acting else 0.0)
        self._busy, self._since = 0.0, now
        return busy

    def announce(self, publication: Publication) -> None:
        """There are newer weights to receive."""
        self._announced = publication
        self._news.set()

    async def follow(self, send: Callable[[BaseModel], Awaitable[None]]) -> None:
        """Receive each new publication while the models act."""
        while True:
            await self._news.wait()
            self._news.clear()
            publication = self._announced
            if publication is None or not publication.newer_than(self._received):
                continue
            try:
                tensors = await self._source.fetch(publication)
            except StoreError as error:  # a newer one has taken its place, or it was cut off
                log.warning("%s", error)
                await asyncio.sleep(_RECONNECT)
                self._news.set()
                continue
            async with self._change:
                if self._received is not None and self._received.store != publication.store:
                    self._ready.clear()
                if self._demanded:
                    self._ready[publication.number] = (publication, tensors)
                else:
                    await self._use(publication, tensors)
                self._received = publication  # only now: a lost connection may end the lines above
                self._change.notify_all()
            await send(wire.Holds(number=publication.number))

    @contextlib.asynccontextmanager
    async def acting(self, wanted: Publication) -> AsyncGenerator[None]:
        """Wait until the models have weights that may act on an ask; exact ones stay while it acts."""
        async with self._change:
            self._demands.append(wanted.number)
            try:
                while not self._fit(wanted):
                    if self._demanded and not self._acting and wanted.number == min(self._demands):
                        await self._use_exactly(wanted)
                    else:
                        await self._change.wait()
            finally:
                self._demands.remove(wanted.number)
                self._change.notify_all()
            if not self._acting:
                self._since = time.monotonic()
            self._acting += 1
        try:
            yield
        finally:
            async with self._change:
                self._acting -= 1
                if not self._acting:
                    self._busy += time.monotonic() - self._since
                self._change.notify_all()

    def _fit(self, wanted: Publication) -> bool:
        used = self._used
        if self._demanded or used is None:
            return used == wanted
        return used.store == wanted.store and used.number >= wanted.number

    async def _use_exactly(self, wanted: Publication) -> None:
        """Use certain weights, which are here, on their way, or were skipped."""
        if self._ready.get(wanted.number, (None,))[0] != wanted:
            if wanted.newer_than(self._received):
                await self._change.wait()
                return
            self._ready[wanted.number] = wanted, await self._source.fetch(wanted)
        await self._use(*self._ready[wanted.number])
        self._ready = {number: ready for number, ready in self._ready.items() if number >= wanted.number}

    async def _use(self, publication: Publication, tensors: Tensors) -> None:
        await asyncio.to_thread(self._refresh, publication, tensors)
        self._used = publication

    def _refresh(self, publication: Publication, tensors: Tensors) -> None:
        for name, model in self._models.items():
            if name not in tensors:
                raise ConfigError(f"the learner publishes no weights of {name!r}")
            try:
                model.refresh(tensors[name], version=publication.policies[name].version)
            except (RuntimeError, KeyError, ValueError) as error:
                why = describe_error(error)
                raise ConfigError(f"the learner's weights of {name!r} do not fit its model: {why}") from error


def _most_bytes(models: Mapping[str, Refreshable]) -> int:
    """Most bytes of a file of weights: those of the largest model in 32 bits, and its names."""
    modules = [getattr(model, "module", None) for model in models.values()]
    if None in modules:  # an engine of its own: its weights are not counted here
        return 2**44
    sizes = [sum(v.numel() * max(4, v.element_size()) for v in m.state_dict().values()) for m in modules if m]
    return 2 * max(sizes, default=0) + 2**20
