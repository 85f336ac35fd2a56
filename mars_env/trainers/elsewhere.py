"""A team whose agents act in samplers on Ray, while the learner trains in this process."""

import io
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from mars_env.distributed.cluster import load_ray, validate_sendable
from mars_env.distributed.hosts import MakeAgents
from mars_env.distributed.samplers import SamplerFleet, SamplingAgent, SamplingModels
from mars_env.distributed.settings import RaySamplers
from mars_env.errors import ConfigError, explained
from mars_env.lazy import needs
from mars_env.models.preflight import models_of
from mars_env.trainers.samplers import Sampler
from mars_env.trainers.team import Team
from mars_env.types import Agent

with needs("hf", "training needs torch"):
    import torch


@asynccontextmanager
async def sampled_by(team: Team, samplers: RaySamplers | None, staleness: int = 0) -> AsyncGenerator[Team]:
    """The team with agents that act in samplers; the same team if there are none.

    Its `refresh` publishes the weights, so it can be given to any loop (`mars_env.trainers.fit`, SPELL). The
    samplers end with the context. Copies of the agents are sent to the samplers, unless the team's
    `make_agents` makes them there.

    Raises:
        ConfigError: The agents cannot be sent to other processes.
        CannotStart: The cluster has no room for the samplers, or they do not load.
    """
    if samplers is None:
        yield team
        return
    if team.make_agents is None:
        make = _sent(team.agents)
    else:
        make = team.make_agents
        validate_sendable(load_ray(), make)
    make_all = partial(sampling_agents, make, frozenset(team.policies), samplers.refresh == "demanded")
    async with SamplerFleet(team.agents, make_all, samplers, staleness) as fleet:
        yield replace(team, agents=fleet.agents, refresh=fleet.publish)


def sampling_agents(
    make_agents: MakeAgents, policies: frozenset[str], exact: bool
) -> dict[str, SamplingAgent]:
    """The agents of a sampler, which share the weights of its models; runs in its process."""
    agents, models, samplers = make_agents(), list[Any](), dict[str, list[Sampler]]()
    for name, agent in agents.items():
        if agent.policy not in policies:
            continue
        refreshable = [model for model in models_of(agent) if hasattr(model, "refresh")]
        if not refreshable:
            raise ConfigError(f"{name} has no model that takes new weights: give it one, as its `model`")
        new = [model for model in refreshable if model not in models]
        models += new
        samplers.setdefault(agent.policy, []).extend(Sampler(agent.policy, model) for model in new)
    shared = SamplingModels(samplers, exact)
    return {name: SamplingAgent(agent, shared) for name, agent in agents.items()}


def _sent(agents: Mapping[str, Agent]) -> MakeAgents:
    cloudpickle, buffer = load_ray().cloudpickle, io.BytesIO()
    what = "these agents cannot be sent to samplers: give Team.make_agents"
    with explained(ConfigError, what, Exception):  # an object's own pickling may raise anything
        torch.save(dict(agents), buffer, pickle_module=cloudpickle)
    return partial(_received, buffer.getvalue())


def _received(data: bytes) -> Mapping[str, Agent]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.load(io.BytesIO(data), map_location=device, weights_only=False)
