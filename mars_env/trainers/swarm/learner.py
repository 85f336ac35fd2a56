"""`Swarm`: a team whose agents act in other processes, which may be far away, while this one trains.

The engine, the pipeline and the loop are those of any training. Only the acts of the agents go out, so a lost
sampler loses its own turns only, references and rewards stay here, and the bound of staleness holds.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from aiohttp import WSCloseCode, web
from pydantic import BaseModel, NonNegativeInt, PositiveFloat, PositiveInt, ValidationError

from mars_env.errors import ConfigError, ModelError
from mars_env.net import Guard, Refusal, Server, start_server
from mars_env.rollout.staleness import acting_run, least_updates
from mars_env.sync import end_tasks
from mars_env.text import describe_error, logger, one_line, shown
from mars_env.trainers.local import Policy
from mars_env.trainers.swarm import wire
from mars_env.trainers.swarm.capacity import Capacity
from mars_env.trainers.swarm.weights import Publication, WeightStore
from mars_env.trainers.team import Team
from mars_env.types import Action, Observation

log = logger(__name__)

_GRACE = 2.0  # seconds in which samplers learn, at the end, that the training is over
_REMINDER = 60.0  # seconds between two warnings that asks wait and there is no sampler


class SwarmSettings(BaseModel, frozen=True, extra="forbid"):
    """How a learner treats its samplers."""

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

    ask: wire.RemoteAct
    policy: str
    answer: asyncio.Future[list[Action]]
    holder: "_Sampler | None" = None
    tries: int = 0
    why: str = ""


@dataclass(slots=True, eq=False)
class _Sampler:
    """A connected sampler."""

    name: str
    socket: web.WebSocketResponse
    out: asyncio.Queue[BaseModel]
    room: int
    held: dict[str, _Open]

    async def send(self) -> None:
        """Send what is put into `out`, until a `Bye` is sent."""
        message: BaseModel | None = None
        while not isinstance(message, wire.Bye):
            message = await self.out.get()
            await self.socket.send_str(message.model_dump_json())


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
        self._open: dict[str, _Open] = {}  # in the order of asking
        self._numbers = itertools.count()
        self._samplers: list[_Sampler] = []
        self._updates: list[float] = []  # seconds
        self._spread: list[float] = []
        self._busy = 0.0
        self._over = False

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/v1/sampler", self._serve)
        app.router.add_get("/v1/weights/{number}/{policy}", self._file)
        self._loop = asyncio.get_running_loop()
        self._server: Server = await start_server(app, self._host, self._port, self._guard, grace=_GRACE)
        self.url = self._server.url
        self._reminder = asyncio.create_task(self._remind())
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await end_tasks([self._reminder])
        if error is None:
            self._over = True
            self._tell(wire.Bye())
            ends = time.monotonic() + _GRACE
            while self._samplers and time.monotonic() < ends:
                await asyncio.sleep(0.02)
        # After a failure samplers wait for a learner that continues.
        await asyncio.gather(*(each.socket.close(code=WSCloseCode.GOING_AWAY) for each in self._samplers))
        await self._server.close()

    # ------------------------------------------------------------------------------------ the team's side

    def publish(self, policies: Mapping[str, Policy]) -> None:
        """Publish the present weights: the team's `refresh`, which the loop calls after each update."""
        publication = self.store.publish(policies)
        self._published.append((publication, time.monotonic()))
        if self.url:  # else no sampler is connected yet
            self._loop.call_soon_threadsafe(self._tell, wire.News(publication=publication))

    async def act(self, agent: str, observation: Observation, n: int, seed: int) -> list[Action]:
        """Have a sampler act, with weights that the pipeline's bound allows.

        Raises:
            ModelError: No sampler gave an answer that can be used.
        """
        if not self._published:
            raise ConfigError("a swarm acts once its weights are published: give swarm.team to train")
        patience = self._settings.patience
        ask = wire.RemoteAct(
            id=str(next(self._numbers)),
            agent=agent,
            observation=dict(observation),
            n=n,
            seed=seed,
            weights=self._oldest(),
        )
        opened = _Open(ask, self._agents[agent], asyncio.get_running_loop().create_future())
        self._open[ask.id] = opened
        self._dispatch()
        try:
            async with asyncio.timeout(patience):
                return await opened.answer
        except TimeoutError as error:
            why = opened.why or "is one running, and does it reach this address?"
            raise ModelError(f"no sampler answered within {patience:g} s: {why}") from error
        finally:
            del self._open[ask.id]
            if opened.holder is not None:
                opened.holder.out.put_nowait(wire.Drop(ask=ask.id))
                self._release(opened)

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

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        """The connection of one sampler, for as long as it lasts."""
        if "Origin" in request.headers:
            raise Refusal(403, "this address is for samplers, not for web pages")
        lease, most = self._settings.lease, self._settings.most
        socket = web.WebSocketResponse(heartbeat=lease / 2, max_msg_size=most, compress=False)
        await socket.prepare(request)
        name = f"{request.remote}#{next(self._numbers)}"
        sampler = _Sampler(name, socket, asyncio.Queue(), room=0, held={})
        sender = asyncio.create_task(sampler.send())
        try:
            async for message in socket:
                self._hear(sampler, wire.FROM_SAMPLER.validate_json(message.data))
        except (ValidationError, Refusal) as error:
            why = describe_error(error)
            log.warning("the sampler %s is rejected: %s", name, why)
            sampler.out.put_nowait(wire.Bye(why=why))
            await asyncio.wait([sender], timeout=_GRACE)
        finally:
            self._left(sampler, lost=socket.close_code != WSCloseCode.OK)
            await end_tasks([sender])
        await socket.close()
        return socket

    def _hear(self, sampler: _Sampler, said: wire.Hello | wire.Holds | wire.Give) -> None:
        match said:
            case wire.Hello() if sampler not in self._samplers:
                if any(said.agents.get(name) != policy for name, policy in self._agents.items()):
                    has = _pairs(said.agents) or "no agents"
                    raise Refusal(400, f"the team is {_pairs(self._agents)}, but the sampler has {has}")
                sampler.room = said.room
                self._samplers.append(sampler)
                if self._published:
                    sampler.out.put_nowait(wire.News(publication=self._published[-1][0]))
                if self._over:
                    sampler.out.put_nowait(wire.Bye())
                self._dispatch()
            case wire.Holds():
                now = time.monotonic()
                self._spread += [now - at for made, at in self._published if made.number == said.number]
            case wire.Give():
                self._busy += said.busy
                self._give(sampler, said)

    def _give(self, sampler: _Sampler, give: wire.Give) -> None:
        opened = sampler.held.get(give.ask)
        if opened is None or opened.answer.done():
            return
        self._release(opened)
        try:
            opened.answer.set_result(self._received(give, opened))
        except ValueError as error:
            why = one_line(str(error), 300)
            log.warning("an answer of the sampler %s is rejected: %s", sampler.name, why)
            self._fail(opened, f"{sampler.name}: {why}")
        self._dispatch()

    def _received(self, give: wire.Give, opened: _Open) -> list[Action]:
        if give.fault:
            raise ValueError(give.fault)
        oldest, name = opened.ask.weights.number, opened.policy
        versions = [p.policies[name].version for p, _ in self._published if p.number >= oldest]
        config = self._policies[name].model.config.get_text_config(decoder=True)
        context = getattr(config, "max_position_embeddings", None) or 2**31
        return wire.received(
            give.actions, opened.ask.n, (min(versions), max(versions)), config.vocab_size, context
        )

    async def _file(self, request: web.Request) -> web.StreamResponse:
        number, policy = request.match_info["number"], request.match_info["policy"]
        for publication, _ in self._published[-self._settings.max_staleness - 2 :]:
            path = self.store.file(publication.number, policy)
            if number == str(publication.number) and policy in publication.policies and path.is_file():
                return web.FileResponse(path)
        raise Refusal(404, "these weights are not here any more: ask for the newest")

    def _left(self, sampler: _Sampler, lost: bool) -> None:
        """Give the asks of a sampler that has left, or was lost, to others."""
        if sampler not in self._samplers:
            return
        self._samplers.remove(sampler)
        how, held = "is lost" if lost else "has left", list(sampler.held.values())
        log.log(logging.WARNING if lost else logging.INFO, "the sampler %s %s", sampler.name, how)
        for opened in held:
            self._release(opened)
            if lost:
                self._fail(opened, f"the sampler {sampler.name} was lost")
            else:
                opened.tries -= 1
        self._dispatch()

    def _dispatch(self) -> None:
        """Give asks that wait to samplers with room, each to the one that has the fewest."""
        for opened in [each for each in self._open.values() if not (each.holder or each.answer.done())]:
            free = [sampler for sampler in self._samplers if len(sampler.held) < sampler.room]
            if not free:
                return
            opened.holder = min(free, key=lambda sampler: len(sampler.held))
            opened.holder.held[opened.ask.id] = opened
            opened.holder.out.put_nowait(opened.ask)
            opened.tries += 1

    def _release(self, opened: _Open) -> None:
        """Its holder has it no more."""
        if opened.holder is not None:
            del opened.holder.held[opened.ask.id]
            opened.holder = None

    def _fail(self, opened: _Open, why: str) -> None:
        """An attempt has failed; after the last one the turn has."""
        opened.why = why
        if opened.tries >= self._settings.attempts and not opened.answer.done():
            opened.answer.set_exception(ModelError(f"{opened.tries} attempts failed, the last one: {why}"))

    def _tell(self, message: BaseModel) -> None:
        for sampler in self._samplers:
            sampler.out.put_nowait(message)

    async def _remind(self) -> None:
        while True:
            await asyncio.sleep(_REMINDER)
            if self._open and not self._samplers:
                log.warning("%d asks wait, and there is no sampler at %s", len(self._open), self.url)


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


def _pairs(agents: Mapping[str, str]) -> str:
    return ", ".join(f"{shown(name)} with {shown(policy)}" for name, policy in agents.items())
