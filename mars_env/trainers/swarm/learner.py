"""`Swarm`: a team whose agents act in other processes, which may be far away, while this one trains.

The engine, the pipeline and the loop are those of any training. Only the acts of the agents go out, so a lost
sampler loses its own turns only, references and rewards stay here, and the bound of staleness holds.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveFloat, PositiveInt, ValidationError

from mars_env.errors import ConfigError, ModelError
from mars_env.net import Guard, Refusal, Server, read_body, start_server
from mars_env.rollout.staleness import acting_run, least_updates
from mars_env.sync import end_tasks
from mars_env.text import logger, one_line, shown
from mars_env.trainers.local import Policy
from mars_env.trainers.swarm import wire
from mars_env.trainers.swarm.capacity import Capacity
from mars_env.trainers.swarm.weights import Publication, WeightStore
from mars_env.trainers.team import Team
from mars_env.types import Action, Observation

log = logger(__name__)

M = TypeVar("M", bound=BaseModel)

_HOLD = 15.0  # seconds after which a request that waits for something is answered
_GRACE = 2.0  # seconds in which samplers learn, at the end, that the training is over
_REMINDER = 60.0  # seconds between two warnings that asks wait and there is no sampler
_QUIET_TURNS = 16  # turns of the event loop for which a request for work waits for more asks to come


class SwarmSettings(BaseModel):
    """How a learner treats its samplers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_staleness: NonNegativeInt = 0
    """That of the run's settings; here it decides how many publications are kept."""
    stale: Literal["pace", "drop"] = "pace"
    """What happens to turns that would be too old for their update. ``"pace"``: samplers wait for newer
    weights. ``"drop"``: they never wait, and the pipeline drops such groups and counts them
    (``pipeline/dropped``)."""
    lease: PositiveFloat = 60.0
    """Seconds of silence after which a sampler counts as lost: others get its asks."""
    attempts: PositiveInt = 5
    """How often an ask is given out before its turn counts as failed."""
    patience: PositiveFloat = 3600.0
    """Seconds that an ask may take in all, waiting for a sampler included; then its tree has a fault."""
    most: PositiveInt = 64 * 2**20
    """Longest answer, in bytes."""


@dataclass(slots=True, eq=False)
class _Open:
    """An ask without an answer."""

    order: int
    ask: wire.RemoteAct
    policy: str
    answer: asyncio.Future[list[Action]]
    holder: str = ""
    since: float = 0.0
    tries: int = 0
    why: str = ""


@dataclass(slots=True)
class _Sampler:
    """When a sampler was last heard, and what it says of itself."""

    at: float
    busy: float = 0.0
    holds: int = 0


class Swarm:
    """Asks samplers in other processes to act, and publishes weights for them. Use it as a context manager.

        settings = SwarmSettings(max_staleness=2)
        async with Swarm({"solver_0": "solver"}, {"solver": policy}, "weights", settings) as swarm:
            print(swarm.url)  # samplers: run_sampler(agents, models, url)
            await train(game, swarm.team, problems, run_settings, directory="run")

    With ``max_staleness=0`` this is Echo's sequential pull: samplers take the newest weights before they act.
    Above 0 it is asynchronous push and pull: weights reach samplers while they act, and each turn says which
    versions made it. As one of `train`'s loggers the swarm measures, and logs its `capacity`.

    Args:
        agents: The policy of each agent, by the agents' names.
        policies: What is trained; see `mars_env.trainers.Team`.
        weights: Folder of the `WeightStore`. A learner that continues a run gets the same one.
        settings: How samplers are treated.
        keys: Keys of samplers; needed unless only this machine is served.
        host: Address to serve at.
        port: Port to serve at; 0: a free one.

    Attributes:
        url: Where samplers find it; after the start.
        team: What `train` gets.
        store: The weight store.

    Raises:
        ConfigError: An agent's policy is not given, or others than this machine are served without a key.
    """

    def __init__(
        self,
        agents: Mapping[str, str],
        policies: Mapping[str, Policy],
        weights: str | Path,
        settings: SwarmSettings | None = None,
        *,
        keys: Sequence[str] = (),
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        if unknown := set(agents.values()) - set(policies):
            raise ConfigError(f"no policy is given for {', '.join(sorted(map(shown, unknown)))}")
        self._guard = Guard(keys, "take part in the training")
        self._guard.require(host)
        self._settings = settings or SwarmSettings()
        self._agents, self._policies = dict(agents), dict(policies)
        self._host, self._port, self.url = host, port, ""
        self.store = WeightStore(weights, keep=self._settings.max_staleness + 2)
        remote = {name: _RemoteAgent(self, name, policy) for name, policy in agents.items()}
        self.team = Team(remote, self._policies, self.publish)
        self._published: list[tuple[Publication, float]] = []  # by this process, with its time
        self._run: object = None  # the training that acts, and the first publication that is its own
        self._run_began = 0
        self._open: dict[str, _Open] = {}
        self._waiting: list[tuple[int, str]] = []
        self._orders = itertools.count()
        self._session = secrets.token_hex(8)
        self._samplers: dict[str, _Sampler] = {}
        self._updates: list[float] = []  # seconds
        self._spread: list[float] = []
        self._busy = 0.0
        self._more = asyncio.Event()
        self._over = False

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=self._settings.most)
        app.router.add_post("/v1/take", self._take)
        app.router.add_post("/v1/give", self._give)
        app.router.add_post("/v1/alive", self._alive)
        app.router.add_get("/v1/weights", self._newest)
        app.router.add_get("/v1/weights/{number}/{policy}", self._file)
        self._server: Server = await start_server(app, self._host, self._port, self._guard, grace=_GRACE)
        self.url = self._server.url
        self._sweeper = asyncio.create_task(self._sweep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:  # after a failure samplers wait for a learner that continues
            self._over = True
            self._more.set()
            ends = time.monotonic() + _GRACE
            while self._samplers and time.monotonic() < ends:
                await asyncio.sleep(0.02)
        await end_tasks([self._sweeper])
        await self._server.close()

    # ------------------------------------------------------------------------------------ the team's side

    def publish(self, policies: Mapping[str, Policy]) -> None:
        """Publish the present weights: the team's `refresh`, which the loop calls after each update."""
        self._published.append((self.store.publish(policies), time.monotonic()))

    async def act(self, agent: str, observation: Observation, n: int, seed: int) -> list[Action]:
        """Have a sampler act, with weights that the pipeline's bound allows.

        Raises:
            ModelError: No sampler gave an answer that can be used.
        """
        if not self._published:
            raise ConfigError("a swarm acts once its weights are published: give swarm.team to train")
        order, weights, patience = next(self._orders), self._oldest(), self._settings.patience
        ask = wire.RemoteAct(
            id=f"{self._session}-{order}",
            agent=agent,
            observation=dict(observation),
            n=n,
            seed=seed,
            weights=weights,
        )
        opened = _Open(order, ask, self._agents[agent], asyncio.get_running_loop().create_future())
        self._open[ask.id] = opened
        self._queue(opened)
        try:
            async with asyncio.timeout(patience):
                return await opened.answer
        except TimeoutError as error:
            why = opened.why or "is one running, and does it reach this address?"
            raise ModelError(f"no sampler answered within {patience:g} s: {why}") from error
        finally:
            self._open.pop(ask.id, None)

    def _oldest(self) -> Publication:
        """The oldest publication that may act in this context."""
        least, run = least_updates(), acting_run()
        if least is None:
            return self._published[-1][0]
        if run is not self._run:  # its first act, before its first update: the newest one is where it starts
            self._run, self._run_began = run, len(self._published) - 1
        return self._published[self._run_began + least if self._settings.stale == "pace" else 0][0]

    def capacity(self) -> Capacity | None:
        """The capacity rule with the times measured so far; None before the second update."""
        updates = len(self._updates)
        if updates < 2 or not self._busy:
            return None
        return Capacity(
            update_seconds=sorted(self._updates)[updates // 2],
            spread_seconds=sum(self._spread) / max(1, len(self._spread)),
            rollout_seconds=self._busy / updates,
            max_staleness=self._settings.max_staleness,
        )

    def start(self, step: int) -> None:
        """As a logger."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """As a logger: measure the last update, and log the capacity now and then."""
        if len(self._published) >= 2:
            (_, before), (_, now) = self._published[-2:]
            self._updates.append(max(1e-9, now - before - values["seconds/waited"]))
        if step % 10 == 0:
            self.close()

    def close(self) -> None:
        """As a logger: log the capacity."""
        if (plan := self.capacity()) is not None:
            log.info("%s; there are %d", plan, len(self._samplers))

    # -------------------------------------------------------------------------------- the samplers' side

    async def _take(self, request: web.Request) -> web.Response:
        take = await _body(request, wire.Take)
        if any(take.agents.get(name) != policy for name, policy in self._agents.items()):
            has = _pairs(take.agents) or "no agents"
            raise Refusal(400, f"the team is {_pairs(self._agents)}, but the sampler has {has}")
        lease = self._settings.lease
        sampler, ends = self._note(take), time.monotonic() + min(_HOLD, lease / 2)
        while not self._over and not self._waiting and (left := ends - time.monotonic()) > 0:
            self._more.clear()
            try:
                async with asyncio.timeout(left):
                    await self._more.wait()
            except TimeoutError:
                break
            for _ in range(_QUIET_TURNS):  # the acts of one wave go out together
                await asyncio.sleep(0)
        sampler.at = time.monotonic()
        if self._over:
            self._samplers.pop(take.sampler, None)
        asks: list[wire.RemoteAct] = []
        if self._samplers.get(take.sampler) is sampler:  # else it has left meanwhile
            share = min(take.room, math.ceil(len(self._waiting) / len(self._samplers)))
            while self._waiting and len(asks) < share:
                opened = self._open.get(heapq.heappop(self._waiting)[1])
                if opened is not None and not opened.answer.done() and not opened.holder:
                    opened.holder, opened.since = take.sampler, time.monotonic()
                    opened.tries += 1
                    asks.append(opened.ask)
        return _json(wire.Taken(asks=asks, lease=lease, over=self._over))

    async def _give(self, request: web.Request) -> web.Response:
        give = await _body(request, wire.Give)
        self._note(give)
        opened = self._open.get(give.ask)
        if opened is None or opened.answer.done():
            return _json(wire.Receipt(result="unwanted"))
        why = f"{shown(give.sampler)}: {one_line(give.fault, 300)}" if give.fault else ""
        refused = ""
        if not why:
            actions, refused = self._received(give, opened)
            if not refused:
                opened.answer.set_result(actions)
                return _json(wire.Receipt(result="taken"))
            log.warning("an answer of the sampler %s is refused: %s", shown(give.sampler), refused)
            why = f"an answer of {shown(give.sampler)} was refused: {refused}"
        if opened.holder == give.sampler:  # else it was slow, and another one may work on it
            self._fail(opened, why)
        return _json(wire.Receipt(result="refused" if refused else "taken", why=refused))

    def _received(self, give: wire.Give, opened: _Open) -> tuple[list[Action], str]:
        oldest, name = opened.ask.weights.number, opened.policy
        versions = [p.policies[name].version for p, _ in self._published if p.number >= oldest]
        config = self._policies[name].model.config.get_text_config(decoder=True)
        context = getattr(config, "max_position_embeddings", None) or 2**31
        return wire.received(
            give.actions, opened.ask.n, (min(versions), max(versions)), config.vocab_size, context
        )

    async def _alive(self, request: web.Request) -> web.Response:
        alive = await _body(request, wire.Alive)
        if alive.leaves:
            if self._samplers.pop(alive.sampler, None) is not None:
                log.info("the sampler %s has left; others get its asks", shown(alive.sampler))
            for opened in self._held(alive.sampler):
                opened.tries -= 1  # that was no attempt
                self._queue(opened)
            return _json(wire.Wanted())
        sampler = self._note(alive)
        held = {opened.ask.id: opened for opened in self._held(alive.sampler)}
        for id in held.keys() - set(alive.asks):  # given, but it does not know: our answer was lost
            if sampler.at - held[id].since > self._settings.lease / 2:
                self._fail(held[id], f"{shown(alive.sampler)} does not work on it")
        return _json(wire.Wanted(dropped=[id for id in alive.asks if id not in held]))

    async def _newest(self, request: web.Request) -> web.Response:
        """The newest publication of this process, as soon as it is another than the one named."""
        known = request.query.get("store", ""), request.query.get("after", "")
        ends = time.monotonic() + _HOLD
        while time.monotonic() < ends and not self._over:
            newest = self._published[-1][0] if self._published else None
            if newest is not None and known != (newest.store, str(newest.number)):
                return _json(newest)
            await asyncio.sleep(0.02)
        return web.Response(status=204)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        number, policy = request.match_info["number"], request.match_info["policy"]
        kept = self._published[-self._settings.max_staleness - 2 :]
        for publication, _ in kept:
            path = self.store.file(publication.number, policy)
            if number == str(publication.number) and policy in publication.policies and path.is_file():
                return web.FileResponse(path)
        raise Refusal(404, "these weights are not here any more: ask for the newest")

    # ------------------------------------------------------------------------------------------- records

    def _note(self, said: wire.Take | wire.Alive | wire.Give) -> _Sampler:
        """A sampler was heard: measure how long it was busy, and how long its newest weights took."""
        now, lease = time.monotonic(), self._settings.lease
        sampler = self._samplers.setdefault(said.sampler, _Sampler(0.0, busy=said.busy))
        self._busy += max(0.0, min(said.busy - sampler.busy, 10 * lease))
        if said.holds > sampler.holds:
            self._spread += [
                now - at for publication, at in self._published if publication.number == said.holds
            ]
        sampler.at, sampler.busy, sampler.holds = now, said.busy, said.holds
        return sampler

    def _held(self, sampler: str) -> list[_Open]:
        return [o for o in self._open.values() if o.holder == sampler and not o.answer.done()]

    def _queue(self, opened: _Open) -> None:
        opened.holder = ""
        heapq.heappush(self._waiting, (opened.order, opened.ask.id))
        self._more.set()

    def _fail(self, opened: _Open, why: str) -> None:
        """An attempt has failed: another sampler, or the same one, tries again."""
        opened.why = why
        if opened.tries < self._settings.attempts:
            self._queue(opened)
        elif not opened.answer.done():
            opened.answer.set_exception(ModelError(f"{opened.tries} attempts failed, the last one: {why}"))

    async def _sweep(self) -> None:
        """Find samplers that are lost, and warn if none is left."""
        reminded, lease = time.monotonic(), self._settings.lease
        while True:
            await asyncio.sleep(lease / 4)
            now = time.monotonic()
            for name in [name for name, sampler in self._samplers.items() if now - sampler.at > lease]:
                held = self._held(name)
                log.warning("the sampler %s is lost; others get its %d asks", shown(name), len(held))
                del self._samplers[name]
                for opened in held:
                    self._fail(opened, f"the sampler {shown(name)} was lost")
            if self._samplers or not self._waiting:
                reminded = now
            elif now - reminded > _REMINDER:
                log.warning("%d asks wait, and there is no sampler at %s", len(self._waiting), self.url)
                reminded = now


@dataclass(frozen=True, slots=True)
class _RemoteAgent:
    """An agent that acts in a sampler."""

    swarm: Swarm
    name: str
    policy: str

    def identity(self) -> dict[str, str]:
        """What identifies it here; its prompt is the sampler's."""
        return {"name": self.name, "policy": self.policy}

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """See `Swarm.act`."""
        return await self.swarm.act(self.name, observation, n, seed)


async def _body(request: web.Request, kind: type[M]) -> M:
    """A request's body, validated; a `Refusal` if it is not what the protocol says, or too long."""
    try:
        return kind.model_validate_json(await read_body(request))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = one_line(".".join(map(str, first["loc"])), 100)
        raise Refusal(422, f"the request is not of this protocol: {where}: {first['msg']}") from error


def _json(value: BaseModel) -> web.Response:
    return web.Response(text=value.model_dump_json(), content_type="application/json")


def _pairs(agents: Mapping[str, str]) -> str:
    return ", ".join(f"{shown(name)} with {shown(policy)}" for name, policy in agents.items())
