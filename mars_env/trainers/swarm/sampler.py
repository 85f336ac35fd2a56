"""`run_sampler`: acts for a learner that may be far away, with the weights that it publishes."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import aiohttp
from pydantic import BaseModel, ValidationError
from torch import Tensor
from yarl import URL

from mars_env.errors import ConfigError, MarsError, ModelError, StoreError
from mars_env.models.preflight import preflight
from mars_env.net import NETWORK_ERRORS, Answer, BodyTooLong, read_bounded, session
from mars_env.players import refuse_training_agents
from mars_env.sync import end_tasks
from mars_env.text import describe_error, logger, one_line
from mars_env.trainers.batches import require_trainable
from mars_env.trainers.swarm import wire
from mars_env.trainers.swarm.weights import (
    MOST_MANIFEST,
    Publication,
    Weights,
    read_manifest,
    read_tensors,
)
from mars_env.trainers.team import Refreshable
from mars_env.types import Agent, Sampling

log = logger(__name__)

M = TypeVar("M", bound=BaseModel)

Tensors = dict[str, dict[str, Tensor]]
"""Weights by policy and name."""

_MOST_ANSWER = 64 * 2**20
_PIECE = 2**20
_LIMITS = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=120)
_SLOWEST_RETRY = 10.0
_FAREWELL = 2.0
"""Seconds in which a sampler that is stopped tells its learner."""


class Connection:
    """A sampler's way to its learner. Errors of the network are tried again, with longer and longer pauses.

    Args:
        url: The learner's, such as ``"http://10.0.0.1:8700"``.
        key: One of its keys.
        patience: Seconds without any answer after which the learner counts as gone.

    Raises:
        ConfigError: The address is none.
    """

    def __init__(self, url: str, key: str = "", patience: float = 600.0) -> None:
        try:
            self.base = URL(url)
        except ValueError as error:
            raise ConfigError(f"{url!r} is no address: {error}") from error
        if self.base.scheme not in ("http", "https") or not self.base.host:
            raise ConfigError(f"a learner's address is like http://10.0.0.1:8700, got {url!r}")
        self._patience, self._heard = patience, time.monotonic()
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"

    async def post(self, path: str, body: BaseModel, kind: type[M]) -> M:
        """Post a message; the checked answer.

        Raises:
            ConfigError: The learner refuses the request, or its answer cannot be read.
            ModelError: It is gone.
        """
        text = body.model_dump_json().encode()
        answer = await self._patiently("POST", self.base / "v1" / path, _MOST_ANSWER, data=text)
        try:
            return kind.model_validate_json(answer.body)
        except ValidationError as error:
            raise ConfigError(f"{self.base} answers in another protocol: {describe_error(error)}") from error

    async def get(
        self, path: str, most: int, into: Path | None = None, query: Mapping[str, str] | None = None
    ) -> bytes | None:
        """Get a page, or have a file of at most so many bytes written; None without content.

        Raises:
            ConfigError, ModelError: As in `post`.
        """
        url = (self.base / "v1" / path).with_query(query or {})
        answer = await self._patiently("GET", url, most, into)
        return None if answer.status == 204 else answer.body

    async def _request(
        self, method: str, url: URL, most: int, into: Path | None, data: bytes | None
    ) -> Answer:
        client = await session()
        async with client.request(
            method, url, data=data, headers=self._headers, timeout=_LIMITS, allow_redirects=False
        ) as response:
            if into is None or response.status != 200:
                limit = most if response.status == 200 else MOST_MANIFEST
                return Answer(response.status, {}, await read_bounded(response, limit))
            await _download(response, into, most)
            return Answer(200, {}, b"")

    async def _patiently(
        self, method: str, url: URL, most: int, into: Path | None = None, data: bytes | None = None
    ) -> Answer:
        pause = 0.1
        while True:
            try:
                answer = await self._request(method, url, most, into, data)
                if answer.status < 500:
                    break
                why = f"status {answer.status}"
            except BodyTooLong as error:
                raise ConfigError(f"an answer of {self.base} is too long: {error}") from error
            except NETWORK_ERRORS as error:
                why = describe_error(error)
            if time.monotonic() - self._heard > self._patience:
                raise ModelError(f"the learner at {self.base} is gone for {self._patience:g} s: {why}")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _SLOWEST_RETRY)
        self._heard = time.monotonic()
        if answer.status >= 300:
            why = one_line(answer.body.decode("utf-8", "replace"), 300)
            raise Refused(answer.status, f"the learner at {self.base} refuses ({answer.status}): {why}")
        return answer


class Refused(ConfigError):
    """The learner refuses a request; `status` says how."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class HTTPWeights:
    """The learner's `WeightStore` from another machine. See `mars_env.trainers.swarm.weights.Weights`.

    Args:
        connection: To the learner.
        most: Most bytes of one policy's file.
    """

    def __init__(self, connection: Connection, most: int) -> None:
        self._connection, self._most = connection, most

    async def latest(self) -> Publication | None:
        """The newest publication, if there is one within a few seconds."""
        body = await self._connection.get("weights", MOST_MANIFEST)
        return None if body is None else read_manifest(body, str(self._connection.base))

    async def wait(self, after: Publication | None = None) -> Publication:
        """See `Weights`."""
        query = {} if after is None else {"store": after.store, "after": str(after.number)}
        while True:
            body = await self._connection.get("weights", MOST_MANIFEST, query=query)
            if body is not None:
                return read_manifest(body, str(self._connection.base))

    async def fetch(self, publication: Publication) -> Tensors:
        """See `Weights`."""
        found = {}
        with tempfile.TemporaryDirectory(prefix="mars-env-weights-") as folder:
            for name, told in publication.policies.items():
                if told.size > self._most:
                    raise ConfigError(
                        f"the weights of {name} are announced with {told.size:,} bytes, where at most "
                        f"{self._most:,} are expected: does the sampler have the learner's model?"
                    )
                path = Path(folder) / f"{name}.safetensors"
                try:
                    await self._connection.get(f"weights/{publication.number}/{name}", told.size, path)
                except Refused as error:
                    if error.status != 404:
                        raise
                    raise StoreError(f"the weights {publication.number} of {name} are gone") from error
                found[name] = await asyncio.to_thread(read_tensors, path, told)
        return found


async def run_sampler(  # public edge: friendly keywords, each with a default
    agents: Mapping[str, Agent],
    models: Mapping[str, Refreshable],
    url: str,
    *,
    key: str = "",
    weights: Weights | None = None,
    concurrency: int = 64,
    refresh: Literal["newest", "demanded"] = "newest",
    patience: float = 600.0,
) -> int:
    """Act for a `Swarm` until its training is over.

    It survives a learner that is stopped and started again. Several samplers may run, on any machines.

    Args:
        agents: By name, as the learner names them.
        models: What new weights go to, by the policies' names.
        url: The learner's address.
        key: One of the learner's keys.
        weights: Where the weights come from; by default over HTTP from the learner. A `WeightStore` if the
            learner's folder can be read here.
        concurrency: Most acts at the same time.
        refresh: ``"newest"``: new weights are used as soon as they are here. ``"demanded"``: only when a turn
            may not be sampled by older ones, and then the oldest that may: every turn is as old as the bound
            allows, whatever the timing. For studies that must repeat to the digit.
        patience: Seconds without a sign of the learner after which the sampler ends.

    Returns:
        How many answers the learner has taken.

    Raises:
        ConfigError: The learner refuses this sampler, or the weights do not fit the models.
        ModelError: The learner is gone.
    """
    refuse_training_agents(agents, "a sampler")
    for name, agent in agents.items():
        if agent.policy not in models:
            raise ConfigError(f"{name} acts with {agent.policy!r}, but no model has that name")
        if isinstance(sampling := getattr(agent, "sampling", None), Sampling):
            require_trainable(sampling)
    await preflight(agents, trained=agents)
    connection = Connection(url, key, patience)
    source = weights or HTTPWeights(connection, _most_bytes(models))
    sampler = _Sampler(agents, models, connection, source, concurrency, refresh == "demanded")
    try:
        return await sampler.run()
    except asyncio.CancelledError:
        await sampler.leave()
        raise


class _Sampler:
    """A running sampler."""

    def __init__(
        self,
        agents: Mapping[str, Agent],
        models: Mapping[str, Refreshable],
        connection: Connection,
        weights: Weights,
        concurrency: int,
        demanded: bool,
    ) -> None:
        self._agents, self._models = agents, models
        self._connection, self._weights = connection, weights
        self._concurrency, self._demanded = concurrency, demanded
        self._name = secrets.token_hex(8)
        self._received: Publication | None = None  # the newest one
        self._ready: dict[int, tuple[Publication, Tensors]] = {}  # received, not used yet
        self._used: Publication | None = None
        self._acting = 0
        self._demands: list[int] = []
        self._change = asyncio.Condition()
        self._asks: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Event()
        self._taken = 0
        self._busy, self._since, self._lease = 0.0, 0.0, 4.0
        self._news = asyncio.Event()
        self._failure: asyncio.Future[None] | None = None

    async def run(self) -> int:
        """See `run_sampler`."""
        self._failure = asyncio.get_running_loop().create_future()
        work = [asyncio.create_task(part()) for part in (self._take, self._follow, self._show)]
        try:
            # Only taking ends, when the training is over; the others end when something fails.
            done, _ = await asyncio.wait([*work, self._failure], return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            await end_tasks([*work, *self._asks.values()])
            self._failure.cancel()
        return self._taken

    async def leave(self) -> None:
        """Tell the learner, if it can be told at once, that others may have what was under way."""
        with contextlib.suppress(MarsError, TimeoutError):
            async with asyncio.timeout(_FAREWELL):
                await self._connection.post("leave", wire.Working(**self._state()), wire.Left)

    async def _take(self) -> None:
        policies = {name: agent.policy for name, agent in self._agents.items()}
        while True:
            while (room := self._concurrency - len(self._asks)) < 1:
                self._room.clear()
                await self._room.wait()
            take = wire.Take(**self._state(), agents=policies, room=room)
            taken = await self._connection.post("take", take, wire.Taken)
            if taken.over:
                return
            self._lease = taken.lease
            for ask in taken.asks:
                self._asks[ask.id] = task = asyncio.create_task(self._answer(ask))
                task.add_done_callback(partial(self._ended, ask.id))

    def _ended(self, id: str, task: asyncio.Task[None]) -> None:
        self._asks.pop(id, None)
        self._room.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            assert self._failure is not None
            if not self._failure.done():
                self._failure.set_exception(error)

    async def _show(self) -> None:
        """Show that the sampler lives, and stop what nobody wants any more."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._lease / 4):
                    await self._news.wait()
            self._news.clear()
            alive = wire.Alive(**self._state(), asks=list(self._asks))
            for id in (await self._connection.post("alive", alive, wire.Wanted)).dropped:
                if id in self._asks:
                    self._asks[id].cancel()

    def _state(self) -> dict[str, Any]:
        busy = self._busy + (time.monotonic() - self._since if self._acting else 0.0)
        return {
            "sampler": self._name,
            "holds": self._received.number if self._received is not None else 0,
            "busy": busy,
        }

    async def _answer(self, ask: wire.Ask) -> None:
        """Act on one ask, and give the answer."""
        parts: dict[str, Any]
        try:
            async with self._weights_for(ask):
                actions = await self._agents[ask.agent].act(ask.observation, ask.n, ask.seed)
            parts = {"actions": wire.sent(actions)}
        except Exception as error:  # the learner is told, and tries again, here or elsewhere
            log.warning("%s could not act: %s", one_line(ask.agent), describe_error(error))
            parts = {"fault": describe_error(error)[: wire.MOST_FAULT]}
        try:
            given = await self._give(ask, parts)
        except Refused as error:  # too long, for example
            given = await self._give(ask, {"fault": str(error)[: wire.MOST_FAULT]})
        self._taken += given.result == "taken" and "fault" not in parts
        if given.result == "refused":
            log.warning("the learner refused an answer of %s: %s", one_line(ask.agent), one_line(given.why))

    async def _give(self, ask: wire.Ask, parts: Mapping[str, Any]) -> wire.Given:
        give = wire.Give(**self._state(), ask=ask.id, **parts)
        return await self._connection.post("give", give, wire.Given)

    @contextlib.asynccontextmanager
    async def _weights_for(self, ask: wire.Ask) -> Any:
        """Wait until the models have weights that may act on this ask, and keep exact ones while it acts."""
        async with self._change:
            self._demands.append(ask.weights.number)
            try:
                while not self._may_act(ask):
                    if self._demanded and not self._acting and ask.weights.number == min(self._demands):
                        await self._use_demanded(ask.weights)
                    else:
                        await self._change.wait()
            finally:
                self._demands.remove(ask.weights.number)
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

    def _may_act(self, ask: wire.Ask) -> bool:
        if self._demanded:
            return self._used == ask.weights
        used = self._used
        return used is not None and used.store == ask.weights.store and used.number >= ask.weights.number

    async def _use_demanded(self, wanted: Publication) -> None:
        """Use certain weights, which are here, on their way, or were skipped."""
        if self._ready.get(wanted.number, (None,))[0] != wanted:
            if wanted.newer_than(self._received):
                await self._change.wait()
                return
            self._ready[wanted.number] = wanted, await self._weights.fetch(wanted)
        await self._use(*self._ready[wanted.number])
        self._ready = {number: ready for number, ready in self._ready.items() if number >= wanted.number}

    async def _follow(self) -> None:
        """Receive each new publication while the models act."""
        while True:
            publication = await self._weights.wait(self._received)
            try:
                tensors = await self._weights.fetch(publication)
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
            self._news.set()

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
    sizes = []
    for model in models.values():
        module = getattr(model, "module", None)
        if module is None:  # an engine of its own: its weights are not counted here
            return 2**44
        sizes.append(
            sum(value.numel() * max(4, value.element_size()) for value in module.state_dict().values())
        )
    return 2 * max(sizes, default=0) + 2**20


async def _download(response: aiohttp.ClientResponse, path: Path, most: int) -> None:
    """Write an answer into a file; one that does not end is cut off, and does not pass its hash."""
    size = 0
    with path.open("wb") as file:
        async for part in response.content.iter_chunked(_PIECE):
            size += len(part)
            if size > most:
                raise BodyTooLong(most)
            await asyncio.to_thread(file.write, part)
