"""Agents that act in other processes on Ray while this one trains: Echo (arXiv 2508.05387).

Each act goes to the process that has the least to do, with weights that may act on it. Ray's object store
holds them; a process fetches each version once.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from mars_env.distributed.cluster import Cluster
from mars_env.distributed.hosts import Processes
from mars_env.distributed.settings import RaySamplers
from mars_env.errors import ConfigError, ModelError
from mars_env.identity import identity_of
from mars_env.players import validate_playable
from mars_env.rollout.staleness import acting_run, least_updates
from mars_env.text import describe_error
from mars_env.types import Action, Agent, Observation


@dataclass(frozen=True, slots=True)
class Weights:
    """One publication (the `number`th, from 0) of the weights that are trained.

    `versions` are those of each policy; `states` is Ray's reference to the state dicts by policy: of
    adapters, the adapters alone.
    """

    number: int
    versions: Mapping[str, int]
    states: Awaitable[Mapping[str, Any]]


# ------------------------------------------------------------------------------ in the sampler's process


class RefreshedModel(Protocol):
    """A model that takes new weights (`mars_env.trainers.samplers.Sampler`)."""

    def refresh(self, weights: Any, version: int) -> bool:
        """Take a state dict and its version; whether `probe` must follow."""

    async def probe(self) -> None:
        """Raise `ModelError` if the weights have not arrived."""


class SamplingModels:
    """The models of one sampler, by policy, and the weights that they have. Its agents share it.

    If `exact` they act with the weights that are demanded, never with newer ones.
    """

    def __init__(self, models: Mapping[str, Sequence[RefreshedModel]], exact: bool) -> None:
        self._models, self._exact = models, exact
        self._number = -1  # of the weights that the models have
        self._acting = 0
        self._change = asyncio.Condition()

    @asynccontextmanager
    async def acting(self, weights: Weights, least: int) -> AsyncGenerator[None]:
        """Have weights that may act: these, or in the mode ``"newest"`` any from number `least` on."""
        async with self._change:
            await self._change.wait_for(
                lambda: self._may_act(weights, least) or not (self._exact and self._acting)
            )
            if not self._may_act(weights, least):
                await self._take(weights)
            self._acting += 1
        try:
            yield
        finally:
            self._acting -= 1
            async with self._change:
                self._change.notify_all()

    async def push(self, weights: Weights) -> None:
        """Take newer weights now; acts under way continue with them where the engine can."""
        async with self._change:
            if not self._exact and weights.number > self._number:
                await self._take(weights)

    def _may_act(self, weights: Weights, least: int) -> bool:
        return self._number == weights.number if self._exact else self._number >= least

    async def _take(self, weights: Weights) -> None:
        for policy, state in (await weights.states).items():
            for model in self._models.get(policy, ()):
                try:
                    if await asyncio.to_thread(model.refresh, state, weights.versions[policy]):
                        await model.probe()
                except (RuntimeError, KeyError, ValueError, TypeError, ModelError) as error:
                    why = describe_error(error)
                    raise ConfigError(f"the weights of {policy!r} do not fit its sampler: {why}") from error
        self._number = weights.number
        self._change.notify_all()


@dataclass(frozen=True, slots=True)
class SamplingAgent:
    """An agent in a sampler's process."""

    agent: Agent
    models: SamplingModels

    @property
    def model(self) -> Any:
        """The agent's own model, which is closed with the process."""
        return getattr(self.agent, "model", None)

    async def act(
        self, observation: Observation, n: int, seed: int, weights: Weights, least: int
    ) -> list[Action]:
        """Act with weights that may."""
        async with self.models.acting(weights, least):
            return await self.agent.act(observation, n, seed)


async def push_weights(agents: Mapping[str, SamplingAgent], weights: Weights) -> None:
    """Give a sampler newer weights."""
    for agent in agents.values():
        await agent.models.push(weights)


async def _made_there(sent: list[Awaitable[Any]]) -> Mapping[str, SamplingAgent]:
    return (await sent[0])()


# ------------------------------------------------------------------------------ in the learner's process


class SamplerFleet(Cluster):
    """Samplers on Ray: processes in which the agents of a training act. Use it as an async context manager.

    A process that is lost is started again, and its acts go to others. The seed of an act does not depend on
    where it is sampled, so neither does what is sampled. `make` makes the same agents in a sampler's process
    as the learner has; `staleness` is how many versions a turn may be old when it is trained.
    """

    processes: Processes

    def __init__(
        self,
        agents: Mapping[str, Agent],
        make: Callable[[], Mapping[str, SamplingAgent]],
        settings: RaySamplers,
        staleness: int = 0,
    ) -> None:
        validate_playable(agents, "a sampler")
        super().__init__(settings, [settings])
        self._make, self._place = make, settings
        self._exact = settings.refresh == "demanded"
        self.agents = {name: RemoteSampler(self, name, agent) for name, agent in agents.items()}
        self._published: deque[Weights] = deque(maxlen=staleness + 2)
        self._run: object = None  # the training that acts, and the number of its first weights
        self._run_began = 0
        self._room = asyncio.Semaphore(settings.count * settings.concurrency)

    async def start(self) -> None:
        """Start the samplers."""
        # The reference is kept, because what replaces a lost process needs the function, too.
        self._sent = self.ray.put(self._make)
        make = partial(_made_there, [self._sent])
        self.processes = await self.start_processes("sampler", self._place, make)

    def publish(self, policies: Mapping[str, Any]) -> None:
        """Put the present weights of policies (`mars_env.trainers.Policy`) into Ray's object store.

        With ``refresh="newest"`` all samplers get them at once.
        """
        states = {
            name: {key: value.detach().cpu() for key, value in policy.model.state_dict().items()}
            for name, policy in policies.items()
        }
        number = self._published[-1].number + 1 if self._published else 0
        versions = {name: policy.version for name, policy in policies.items()}
        weights = Weights(number, versions, self.put(states))
        self._published.append(weights)
        if not self._exact:
            for handle in self.processes.handles:
                handle.apply.remote(push_weights, weights)  # an act finds out if they do not fit

    def put(self, states: Mapping[str, Any]) -> Any:
        """Ray's reference to what is published."""
        return self.ray.put(states)

    async def act(self, name: str, observation: Observation, n: int, seed: int) -> list[Action]:
        """Have a sampler act with weights that the bound of staleness allows."""
        if not self._published:
            raise ConfigError("samplers act once there are weights: call publish first, as train does")
        least = self._least_number()
        async with self._room:
            newest = self._published[-1]
            weights = self._with_number(least) if self._exact else newest
            return await self.processes.call(name, "act", dict(observation), n, seed, weights, least)

    def _least_number(self) -> int:
        least, run = least_updates(), acting_run()
        if least is None:
            return self._published[-1].number
        if run is not self._run:  # its first act, before its first update: the newest weights are its first
            self._run, self._run_began = run, self._published[-1].number
        return self._run_began + least

    def _with_number(self, number: int) -> Weights:
        for weights in self._published:
            if weights.number == number:
                return weights
        raise ModelError(
            f"weights {number} are no longer there: the act is older than the bound of staleness"
        )


@dataclass(frozen=True, slots=True)
class RemoteSampler:
    """An agent of the learner that acts in samplers."""

    fleet: SamplerFleet
    name: str
    agent: Agent

    @property
    def policy(self) -> str:
        """The agent's own."""
        return self.agent.policy

    def identity(self) -> dict[str, Any]:
        """What identifies the agent; where it acts does not."""
        return {"agent": identity_of(self.agent)}

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """See `SamplerFleet.act`."""
        return await self.fleet.act(self.name, observation, n, seed)
