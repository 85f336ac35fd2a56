"""A fleet of workers and graders on Ray, for the games that this process plays."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from mars_env.distributed import hosts
from mars_env.distributed.cluster import Cluster, validate_sendable
from mars_env.distributed.hosts import CheckAgents, MakeAgents, MakeGame, Processes, RemoteAgent
from mars_env.distributed.settings import Placement
from mars_env.envs.game import Game
from mars_env.rollout.contexts import longest_statement
from mars_env.types import Agent, Problem

_OBJECT_STORE = 100 * 2**20
"""Bytes of shared memory of a Ray that is started here. Records are small and do not need it."""


class Fleet(Cluster):
    """Agents that act, and graders that grade, in processes of a Ray cluster, or on this machine.

    This process plays the trees: `mars_env.rollout.play_all(fleet.game, fleet.agents, jobs, seed=0)` gives
    the same trees as without a fleet. A process that is lost is replaced, and others repeat its calls.

    Games and agents are not sent to the processes: `make_game` and `make_agents` are sent, and make them
    there. They can be functions of a module, a `functools.partial` of one, or functions of the script.

    Raises:
        ConfigError: The functions cannot be sent to other processes, or there is no Ray at the address.
        CannotStart: The cluster has no room for a single process of a kind, or none can be started.
    """

    game: Game
    agents: Mapping[str, Agent]
    workers: Processes
    graders: Processes

    def __init__(
        self, make_game: MakeGame, make_agents: MakeAgents, placement: Placement | None = None
    ) -> None:
        self.placement = placement = placement or Placement()
        self._make_game, self._make_agents = make_game, make_agents
        places = [placement.workers, *([placement.graders] if placement.graders else [])]
        super().__init__(placement, places, _OBJECT_STORE)
        validate_sendable(self.ray, make_game, make_agents)

    async def check(self, problems: Sequence[Problem], check_agents: CheckAgents) -> None:
        """Reject agents, in one of their processes; see `hosts.check_team`."""
        await self.workers.apply(hosts.check_team, self._make_game, longest_statement(problems), check_agents)

    async def start(self) -> None:
        """See `Cluster`."""
        graders, make_game = self.placement.graders, self._make_game
        make_worker = partial(hosts.worker_of, None if graders else make_game, self._make_agents)
        starting = [self.start_processes("worker", self.placement.workers, make_worker)]
        if graders is not None:
            make_graders = partial(hosts.graders_of, make_game)
            starting.append(self.start_processes("grader", graders, make_graders))
        started = await asyncio.gather(*starting)
        self.workers, self.graders = started[0], started[-1]
        self.game = hosts.with_remote_graders(make_game, self.graders)
        policies = await self.workers.apply(hosts.policies_of)
        self.agents = {name: RemoteAgent(self.workers, name, policy) for name, policy in policies.items()}
