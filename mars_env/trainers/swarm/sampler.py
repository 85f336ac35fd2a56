"""`run_sampler`: acts for a learner that may be far away, with the weights that it publishes."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import aiohttp
from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt, ValidationError
from yarl import URL

from mars_env.errors import ConfigError, MarsError, ModelError, StoreError
from mars_env.models.preflight import preflight
from mars_env.net import NETWORK_ERRORS, Answer, BodyTooLong, read_bounded, session
from mars_env.text import describe_error, logger, one_line
from mars_env.trainers.checks import SAMPLER, check_agents
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.samplers import Refreshable
from mars_env.trainers.swarm import wire
from mars_env.trainers.swarm.weights import MANIFEST_BYTES, Publication, Tensors, Weights, read_tensors
from mars_env.types import Agent

log = logger(__name__)

M = TypeVar("M", bound=BaseModel)

_ANSWER_BYTES = 64 * 2**20
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=120)
_SLOWEST_RETRY = 10.0
_FAREWELL = 2.0  # seconds in which a sampler that is stopped tells its learner


class SamplerSettings(BaseModel):
    """How a sampler works."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
        try:
            self._base = URL(url)
        except ValueError as error:
            raise ConfigError(f"{url!r} is no address: {error}") from error
        if self._base.scheme not in ("http", "https") or not self._base.host:
            raise ConfigError(f"a learner's address is like http://10.0.0.1:8700, got {url!r}")
        self._patience, self._file_bytes, self._heard = patience, file_bytes, time.monotonic()
        authorization = {"Authorization": f"Bearer {key}"} if key else {}
        self._headers = {"Content-Type": "application/json", **authorization}

    async def post(self, path: str, message: BaseModel, kind: type[M]) -> M:
        """Post a message; the validated answer.

        Raises:
            ConfigError: The learner rejects the request, or its answer cannot be read.
            ModelError: It is gone.
        """
        answer = await self._send("POST", path, _ANSWER_BYTES, data=message.model_dump_json().encode())
        try:
            return kind.model_validate_json(self._accepted(answer).body)
        except ValidationError as error:
            raise ConfigError(f"{self._base} answers in another protocol: {describe_error(error)}") from error

    async def wait(self, after: Publication | None = None) -> Publication:
        """See `Weights`."""
        query = {} if after is None else {"store": after.store, "after": str(after.number)}
        while True:
            answer = self._accepted(await self._send("GET", "weights", MANIFEST_BYTES, query=query))
            if answer.body:  # else there is nothing new yet
                return Publication.read(answer.body, str(self._base))

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
                answer = await self._send("GET", f"weights/{publication.number}/{name}", wanted.size, path)
                if answer.status == 404:
                    raise StoreError(f"the weights {publication.number} of {name} are gone")
                self._accepted(answer)
                found[name] = await asyncio.to_thread(read_tensors, path, wanted)
        return found

    def _accepted(self, answer: Answer) -> Answer:
        if answer.status >= 300:
            why = one_line(answer.body.decode("utf-8", "replace"), 300)
            raise ConfigError(f"the learner at {self._base} refuses ({answer.status}): {why}")
        return answer

    async def _send(
        self, method: str, path: str, most: int, into: Path | None = None, **options: Any
    ) -> Answer:
        """An answer of at most so many bytes, or the file into which it was written."""
        pause, url = 0.1, (self._base / "v1" / path).with_query(options.pop("query", {}))
        while True:
            try:
                answer = await self._once(method, url, most, into, options)
                if answer.status < 500:
                    self._heard = time.monotonic()
                    return answer
                why = f"status {answer.status}"
            except BodyTooLong as error:
                raise ConfigError(f"an answer of {self._base} is too long: {error}") from error
            except NETWORK_ERRORS as error:
                why = describe_error(error)
            if time.monotonic() - self._heard > self._patience:
                raise ModelError(f"the learner at {self._base} is gone for {self._patience:g} s: {why}")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _SLOWEST_RETRY)

    async def _once(
        self, method: str, url: URL, most: int, into: Path | None, options: Mapping[str, Any]
    ) -> Answer:
        options = {**options, "headers": self._headers, "timeout": _TIMEOUT, "allow_redirects": False}
        async with (await session()).request(method, url, **options) as response:
            if into is None or response.status != 200:
                limit = most if response.status == 200 else MANIFEST_BYTES
                return Answer(response.status, {}, await read_bounded(response, limit))
            size = 0
            with into.open("wb") as file:  # one that breaks off does not pass its hash
                async for part in response.content.iter_chunked(2**20):
                    size += len(part)
                    if size > most:
                        raise BodyTooLong(most)
                    await asyncio.to_thread(file.write, part)
            return Answer(200, {}, b"")


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
        How many answers the learner has taken.

    Raises:
        ConfigError: The learner rejects this sampler, or the weights do not fit the models.
        ModelError: The learner is gone.
    """
    for name, agent in agents.items():
        if agent.policy not in models:
            raise ConfigError(f"{name} acts with {agent.policy!r}, but no model has that name")
    check_agents(agents, TrainConfig(), SAMPLER)
    await preflight(agents, trained=agents)
    settings = settings or SamplerSettings()
    connection = Connection(url, key, settings.patience, _most_bytes(models))
    held = _Weights(dict(models), weights or connection, settings.refresh == "demanded")
    sampler = _Sampler(agents, connection, held, settings.concurrency)
    try:
        return await sampler.run()
    except asyncio.CancelledError:
        with contextlib.suppress(MarsError, TimeoutError):  # others may have at once what was under way
            async with asyncio.timeout(_FAREWELL):
                await connection.post("alive", wire.Alive(**sampler.state(), leaves=True), wire.Wanted)
        raise


class _Sampler:
    """A running sampler: takes asks, answers them, and shows that it lives."""

    def __init__(
        self, agents: Mapping[str, Agent], connection: Connection, weights: _Weights, concurrency: int
    ) -> None:
        self._agents, self._connection, self._weights = agents, connection, weights
        self._concurrency, self._name, self._lease, self._taken = concurrency, secrets.token_hex(8), 4.0, 0
        self._asks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> int:
        """Take until the training is over; the other tasks end only when something fails."""
        try:
            async with asyncio.TaskGroup() as tasks:
                others = [tasks.create_task(self._weights.follow()), tasks.create_task(self._show())]
                await self._take(tasks)
                for task in (*others, *self._asks.values()):
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return self._taken

    def state(self) -> dict[str, Any]:
        """What the learner gets with each request."""
        return {"sampler": self._name, "holds": self._weights.holds, "busy": self._weights.busy}

    async def _take(self, tasks: asyncio.TaskGroup) -> None:
        policies = {name: agent.policy for name, agent in self._agents.items()}
        while True:
            while (room := self._concurrency - len(self._asks)) < 1:
                await asyncio.wait(self._asks.values(), return_when=asyncio.FIRST_COMPLETED)
            take = wire.Take(**self.state(), agents=policies, room=min(room, wire.MOST))
            taken = await self._connection.post("take", take, wire.Taken)
            if taken.over:
                return
            self._lease = taken.lease
            for ask in taken.asks:
                self._asks[ask.id] = tasks.create_task(self._answer(ask))

    async def _show(self) -> None:
        """Show that the sampler lives, and stop what nobody waits for any more."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._lease / 4):
                    await self._weights.news.wait()
            self._weights.news.clear()
            alive = wire.Alive(**self.state(), asks=list(self._asks))
            for id in (await self._connection.post("alive", alive, wire.Wanted)).dropped:
                if id in self._asks:
                    self._asks[id].cancel()

    async def _answer(self, ask: wire.RemoteAct) -> None:
        try:
            await self._act(ask)
        finally:
            del self._asks[ask.id]

    async def _act(self, ask: wire.RemoteAct) -> None:
        answer: dict[str, Any]
        try:
            async with self._weights.acting(ask.weights):
                answer = {"actions": await self._agents[ask.agent].act(ask.observation, ask.n, ask.seed)}
        except Exception as error:  # the learner hears of it, and tries again, here or elsewhere
            log.warning("%s could not act: %s", one_line(ask.agent), describe_error(error))
            answer = {"fault": describe_error(error)}
        try:
            receipt = await self._give(ask, answer)
        except (ConfigError, ValidationError) as error:  # too long, for example
            answer = {"fault": describe_error(error)}
            receipt = await self._give(ask, answer)
        self._taken += receipt.result == "taken" and "fault" not in answer
        if receipt.result == "refused":
            log.warning("the learner refused an answer of %s: %s", one_line(ask.agent), one_line(receipt.why))

    async def _give(self, ask: wire.RemoteAct, answer: Mapping[str, Any]) -> wire.Receipt:
        give = wire.Give(**self.state(), ask=ask.id, **answer)
        return await self._connection.post("give", give, wire.Receipt)


class _Weights:
    """The weights of a sampler's models: received while they act, and used when they may be."""

    def __init__(self, models: Mapping[str, Refreshable], source: Weights, demanded: bool) -> None:
        self._models, self._source, self._demanded = models, source, demanded
        self.news = asyncio.Event()
        self._received: Publication | None = None  # the newest one
        self._ready: dict[int, tuple[Publication, Tensors]] = {}  # received, not used yet
        self._used: Publication | None = None
        self._demands: list[int] = []
        self._acting, self._busy, self._since = 0, 0.0, 0.0
        self._change = asyncio.Condition()

    @property
    def holds(self) -> int:
        """Number of the newest publication that was received."""
        return 0 if self._received is None else self._received.number

    @property
    def busy(self) -> float:
        """Seconds in which the models acted."""
        return self._busy + (time.monotonic() - self._since if self._acting else 0.0)

    async def follow(self) -> None:
        """Receive each new publication while the models act."""
        while True:
            publication = await self._source.wait(self._received)
            try:
                tensors = await self._source.fetch(publication)
            except StoreError as error:  # a newer one has taken its place, or it was cut off
                log.warning("%s", error)
                await asyncio.sleep(0.1)
                continue
            async with self._change:
                if self._received is not None and self._received.store != publication.store:
                    self._ready.clear()
                self._received = publication
                if self._demanded:
                    self._ready[publication.number] = (publication, tensors)
                else:
                    await self._use(publication, tensors)
                self._change.notify_all()
            self.news.set()

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
                raise ConfigError(
                    f"the learner's weights of {name!r} do not fit its model: {describe_error(error)}"
                ) from error


def _most_bytes(models: Mapping[str, Refreshable]) -> int:
    """Most bytes of a file of weights: those of the largest model in 32 bits, and its names."""
    modules = [getattr(model, "module", None) for model in models.values()]
    if None in modules:  # an engine of its own: its weights are not counted here
        return 2**44
    sizes = [sum(v.numel() * max(4, v.element_size()) for v in m.state_dict().values()) for m in modules if m]
    return 2 * max(sizes, default=0) + 2**20
