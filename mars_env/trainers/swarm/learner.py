"""`Swarm`: a team whose agents act in other processes, which may be far away, while this one trains.

The engine, the pipeline and the loop are those of any training, here in the learner. Only the acts of the
agents go out: a sampler takes an ask, acts with weights that are new enough, and gives the actions back. So a
lost sampler loses its own turns only, references and rewards never leave the learner, and the pipeline's
bound of staleness holds as in one process.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

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

_HOLD = 15.0
"""Seconds after which a request that waits for something is answered."""
_GRACE = 2.0
"""Seconds in which samplers are told, at the end, that the training is over."""
_REMINDER = 60.0
"""Seconds between two messages that asks wait and there is no sampler."""
_QUIET_TURNS = 16
"""Turns of the event loop for which a request for work waits for more asks to come."""


@dataclass(slots=True, eq=False)
class _Open:
    """An ask without an answer."""

    order: int
    ask: wire.Ask
    policy: str
    answer: asyncio.Future[list[Action]]
    holder: str = ""
    given: float = 0.0
    tries: int = 0
    why: str = ""


@dataclass(slots=True)
class _Seen:
    """A sampler that has shown itself: when, what it works on, what it says of itself."""

    at: float
    asks: set[str] = field(default_factory=set)
    busy: float = 0.0
    holds: int = 0


class Swarm:
    """Asks samplers in other processes to act, and publishes weights for them. Use it as a context manager.

        async with Swarm({"solver_0": "solver"}, {"solver": policy}, "weights", max_staleness=2) as swarm:
            print(swarm.url)  # samplers: run_sampler(agents, models, url)
            await train(game, swarm.team, problems, settings, directory="run")

    With ``max_staleness=0`` this is Echo's sequential pull: samplers take the newest weights before they act.
    Above 0 it is asynchronous push and pull: samplers never stop, weights reach them while they act, and each
    turn says which versions made it.

    Args:
        agents: The policy of each agent, by the agents' names.
        policies: What is trained; see `mars_env.trainers.Team`.
        weights: Folder of the `WeightStore`. A learner that continues a run gets the same one.
        max_staleness: That of the run's settings; here it decides how many publications are kept.
        keys: Keys of samplers; needed unless only this machine is served.
        host: Address to serve at.
        port: Port to serve at; 0: a free one.
        stale: What happens to turns that would be too old for their update. ``"pace"``: nothing is sampled
            by weights that old, samplers wait for newer ones. ``"drop"``: samplers never wait, and the
            pipeline drops such groups whole and counts them (``pipeline/dropped``).
        lease: Seconds of silence after which a sampler counts as lost: others get its asks.
        attempts: How often an ask is given out before its turn counts as failed.
        patience: Seconds that an ask may take in all, waiting for a sampler included; then its turn counts as
            failed, and its tree has a fault.
        most: Longest answer, in bytes.

    Attributes:
        url: Where samplers find it; after the start.
        team: What `train` gets.
        store: The weight store.

    Raises:
        ConfigError: An argument is wrong.
    """

    def __init__(  # public edge: friendly keywords, each with a default
        self,
        agents: Mapping[str, str],
        policies: Mapping[str, Policy],
        weights: str | Path,
        *,
        max_staleness: int = 0,
        keys: Sequence[str] = (),
        host: str = "127.0.0.1",
        port: int = 0,
        stale: Literal["pace", "drop"] = "pace",
        lease: float = 60.0,
        attempts: int = 5,
        patience: float = 3600.0,
        most: int = 64 * 2**20,
    ) -> None:
        if unknown := set(agents.values()) - set(policies):
            raise ConfigError(f"no policy is given for {', '.join(sorted(map(shown, unknown)))}")
        self._guard = Guard(keys, "take part in the training")
        self._guard.require(host)
        if min(lease, patience, attempts, most) <= 0 or stale not in ("pace", "drop"):
            raise ConfigError('lease, patience, attempts and most are above 0, stale is "pace" or "drop"')
        self._agents, self._policies = dict(agents), dict(policies)
        self._host, self._port, self._most = host, port, most
        self._staleness, self._paces = max_staleness, stale == "pace"
        self._lease, self._attempts, self._patience = lease, attempts, patience
        self.store = WeightStore(weights, keep=max_staleness + 2)
        remote = {name: _Remote(self, name, policy) for name, policy in agents.items()}
        self.team = Team(remote, self._policies, self.publish)
        self.url = ""
        self._published: list[Publication] = []  # by this process
        self._run: object = None  # the training that acts, and the first publication that is its own
        self._run_began = 0
        self._at: list[float] = []  # when, and how long the updates between them took
        self._updates: list[float] = []
        self._spread: list[float] = []
        self._open: dict[str, _Open] = {}
        self._waiting: list[tuple[int, str]] = []
        self._orders = itertools.count()
        self._session = secrets.token_hex(8)
        self._seen: dict[str, _Seen] = {}
        self._busy = 0.0
        self._more = asyncio.Event()
        self._over = False
        self._sweeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=self._most)
        for path, handler in (
            ("take", self._take), ("give", self._give), ("alive", self._alive), ("leave", self._leave)
        ):  # fmt: skip
            app.router.add_post(f"/v1/{path}", handler)
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
            while self._seen and time.monotonic() < ends:
                await asyncio.sleep(0.02)
        if self._sweeper is not None:
            await end_tasks([self._sweeper])
        await self._server.close()

    # ------------------------------------------------------------------------------------ the team's side

    def publish(self, policies: Mapping[str, Policy]) -> None:
        """Publish the present weights: the team's `refresh`, which the loop calls after each update."""
        self._published.append(self.store.publish(policies))
        self._at.append(time.monotonic())

    async def act(self, agent: str, observation: Observation, n: int, seed: int) -> list[Action]:
        """Have a sampler act, with weights that the pipeline's bound allows.

        Raises:
            ModelError: No sampler gave an answer that can be used.
        """
        if not self._published:
            raise ConfigError("a swarm acts once its weights are published: give swarm.team to train")
        first = self._oldest()
        order = next(self._orders)
        name = f"{self._session}-{order}"
        ask = wire.Ask(id=name, agent=agent, observation=dict(observation), n=n, seed=seed, weights=first)
        opened = _Open(order, ask, self._agents[agent], asyncio.get_running_loop().create_future())
        self._open[ask.id] = opened
        self._queue(opened)
        try:
            async with asyncio.timeout(self._patience):
                return await opened.answer
        except TimeoutError as error:
            why = opened.why or "is one running, and does it reach this address?"
            raise ModelError(f"no sampler answered within {self._patience:g} s: {why}") from error
        finally:
            self._open.pop(ask.id, None)

    def _oldest(self) -> Publication:
        """The oldest publication that may act in this context."""
        least, run = least_updates(), acting_run()
        if least is None:
            return self._published[-1]
        if run is not self._run:  # its first act, before its first update: the newest one is where it starts
            self._run, self._run_began = run, len(self._published) - 1
        return self._published[self._run_began + least if self._paces else 0]

    def capacity(self) -> Capacity | None:
        """The capacity rule with the times measured so far; None before the second update.

        Times of samplers are those that they report.
        """
        updates = len(self._updates)
        if updates < 2 or not self._busy:
            return None
        return Capacity(
            update_seconds=sorted(self._updates)[updates // 2],
            spread_seconds=sum(self._spread) / len(self._spread) if self._spread else 0.0,
            rollout_seconds=self._busy / updates,
            max_staleness=self._staleness,
        )

    def start(self, step: int) -> None:
        """As a logger, which measures: pass the swarm to `train` among its loggers."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Measure the update before the newest publication, and log the capacity rule every tenth time."""
        if len(self._at) >= 2:
            self._updates.append(max(1e-9, self._at[-1] - self._at[-2] - values["seconds/waited"]))
        plan = self.capacity()
        if plan is not None and step % 10 == 0:
            log.info("step %d: %s; there are %d", step, plan, len(self._seen))

    def close(self) -> None:
        """As a logger: log the capacity rule once more."""
        if (plan := self.capacity()) is not None:
            log.info("%s; there are %d", plan, len(self._seen))

    # -------------------------------------------------------------------------------- the samplers' side

    async def _take(self, request: web.Request) -> web.Response:
        take = await _body(request, wire.Take)
        wrong = {name: policy for name, policy in self._agents.items() if take.agents.get(name) != policy}
        if wrong:
            has = ", ".join(f"{shown(name)} with {shown(policy)}" for name, policy in take.agents.items())
            raise Refusal(
                400, f"the team is {_pairs(self._agents)}, but the sampler has {has or 'no agents'}"
            )
        seen, ends = self._note(take), time.monotonic() + min(_HOLD, self._lease / 2)
        while not self._over and not self._waiting and (left := ends - time.monotonic()) > 0:
            self._more.clear()
            try:
                async with asyncio.timeout(left):
                    await self._more.wait()
            except TimeoutError:
                break
            for _ in range(_QUIET_TURNS):  # the acts of one wave go out together
                await asyncio.sleep(0)
        seen.at = time.monotonic()
        if self._over:
            self._seen.pop(take.sampler, None)
            return _json(wire.Taken(lease=self._lease, over=True))
        if self._seen.get(take.sampler) is not seen:  # it has left meanwhile
            return _json(wire.Taken(lease=self._lease))
        share = min(take.room, math.ceil(len(self._waiting) / max(1, len(self._seen))))
        asks: list[wire.Ask] = []
        while self._waiting and len(asks) < share:
            opened = self._open.get(heapq.heappop(self._waiting)[1])
            if opened is not None and not opened.answer.done() and not opened.holder:
                opened.holder, opened.given = take.sampler, time.monotonic()
                opened.tries += 1
                seen.asks.add(opened.ask.id)
                asks.append(opened.ask)
        return _json(wire.Taken(asks=asks, lease=self._lease))

    async def _give(self, request: web.Request) -> web.Response:
        give = await _body(request, wire.Give)
        self._note(give).asks.discard(give.ask)
        opened = self._open.get(give.ask)
        if opened is None or opened.answer.done():
            return _json(wire.Given(result="unwanted"))
        holds = opened.holder == give.sampler  # else it was slow, and another one may work on it
        if give.fault:
            if holds:
                self._fail(opened, f"{shown(give.sampler)}: {one_line(give.fault, 300)}")
            return _json(wire.Given(result="taken"))
        actions, why = self._received(give, opened)
        if why:
            log.warning("an answer of the sampler %s is refused: %s", shown(give.sampler), why)
            if holds:
                self._fail(opened, f"an answer of {shown(give.sampler)} was refused: {why}")
            return _json(wire.Given(result="refused", why=why))
        opened.answer.set_result(actions)
        return _json(wire.Given(result="taken"))

    def _received(self, give: wire.Give, opened: _Open) -> tuple[list[Action], str]:
        policy = self._policies[opened.policy]
        told = [
            p.policies[opened.policy].version
            for p in self._published
            if p.number >= opened.ask.weights.number
        ]
        text = policy.model.config.get_text_config(decoder=True)
        context = getattr(text, "max_position_embeddings", None) or 2**31
        return wire.received(give, opened.ask.n, (min(told), max(told)), text.vocab_size, context)

    async def _alive(self, request: web.Request) -> web.Response:
        alive = await _body(request, wire.Alive)
        seen = self._note(alive)
        mine = {id for id in alive.asks if (opened := self._open.get(id)) and opened.holder == alive.sampler}
        for id in seen.asks - set(alive.asks):  # it was given them, but does not know: our answer was lost
            opened = self._open.get(id)
            if opened is None or opened.holder != alive.sampler:
                seen.asks.discard(id)
            elif seen.at - opened.given > self._lease / 2:
                seen.asks.discard(id)
                self._fail(opened, f"{shown(alive.sampler)} does not work on it")
        return _json(wire.Wanted(dropped=[id for id in alive.asks if id not in mine]))

    async def _leave(self, request: web.Request) -> web.Response:
        """A sampler is stopped: others get its asks now, and no attempt is counted."""
        leaving = (await _body(request, wire.Working)).sampler
        held = [o for o in self._open.values() if o.holder == leaving and not o.answer.done()]
        if self._seen.pop(leaving, None) is not None:
            log.info("the sampler %s has left; others get its %d asks", shown(leaving), len(held))
        for opened in held:
            opened.tries -= 1
            self._queue(opened)
        return _json(wire.Left(asks=len(held)))

    async def _newest(self, request: web.Request) -> web.Response:
        """The newest publication of this process, as soon as it is another than the one named."""
        known = request.query.get("store", ""), request.query.get("after", "")
        ends = time.monotonic() + _HOLD
        while time.monotonic() < ends and not self._over:
            newest = self._published[-1] if self._published else None
            if newest is not None and known != (newest.store, str(newest.number)):
                return _json(newest)
            await asyncio.sleep(0.02)
        return web.Response(status=204)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        number, policy = request.match_info["number"], request.match_info["policy"]
        published = {str(each.number): each for each in self._published[-self._staleness - 2 :]}
        if number not in published or policy not in published[number].policies:
            raise Refusal(404, "these weights are not here any more: ask for the newest")
        path = self.store.file(published[number].number, policy)
        if not path.is_file():
            raise Refusal(404, "these weights are not here any more: ask for the newest")
        return web.FileResponse(path)

    # ------------------------------------------------------------------------------------------- records

    def _note(self, working: wire.Working) -> _Seen:
        """A sampler has shown itself."""
        seen = self._seen.setdefault(working.sampler, _Seen(0.0, busy=working.busy))
        self._busy += max(0.0, min(working.busy - seen.busy, 10 * self._lease))
        if working.holds > seen.holds and self._published and self._at:
            told = working.holds - self._published[0].number
            if 0 <= told < len(self._at):
                self._spread.append(time.monotonic() - self._at[told])
        seen.at, seen.busy, seen.holds = time.monotonic(), working.busy, working.holds
        return seen

    def _queue(self, opened: _Open) -> None:
        opened.holder = ""
        heapq.heappush(self._waiting, (opened.order, opened.ask.id))
        self._more.set()

    def _fail(self, opened: _Open, why: str) -> None:
        """An attempt has failed: another sampler, or the same one, tries again."""
        opened.why = why
        if opened.tries < self._attempts:
            self._queue(opened)
        elif not opened.answer.done():
            opened.answer.set_exception(ModelError(f"{opened.tries} attempts failed, the last one: {why}"))

    async def _sweep(self) -> None:
        """Find samplers that are lost, and say so if none is left."""
        reminded = time.monotonic()
        while True:
            await asyncio.sleep(self._lease / 4)
            now = time.monotonic()
            for name in [name for name, seen in self._seen.items() if now - seen.at > self._lease]:
                held = [o for o in self._open.values() if o.holder == name and not o.answer.done()]
                log.warning("the sampler %s is lost; others get its %d asks", shown(name), len(held))
                del self._seen[name]
                for opened in held:
                    self._fail(opened, f"the sampler {shown(name)} was lost")
            if self._seen or not self._waiting:
                reminded = now
            elif now - reminded > _REMINDER:
                log.warning("%d asks wait, and there is no sampler at %s", len(self._waiting), self.url)
                reminded = now


@dataclass(frozen=True, slots=True)
class _Remote:
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
    """A request's body, checked.

    Raises:
        Refusal: It is not what the protocol says, or too long.
    """
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
