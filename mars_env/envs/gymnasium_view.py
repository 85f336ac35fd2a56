"""A Gymnasium view: one agent learns against fixed partners, so single-agent code can train it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, SupportsFloat

import gymnasium

from mars_env.envs.aec import MarsEnv
from mars_env.errors import ConfigError
from mars_env.players import Player, assign_agents
from mars_env.seeds import derive_seed
from mars_env.sync import run_sync
from mars_env.text import brief, choices
from mars_env.types import Action, role_of

_MAX_EPISODES = 1000


class GymnasiumView(gymnasium.Env[dict[str, Any], str]):
    r"""A Gymnasium environment in which one agent learns and the others are fixed.

    It plays the partners' turns itself, and stops at each turn of the learner. Partners are given by agent or
    role; the learner's role stands for the others of that role.

    Example:
        >>> import mars_env
        >>> env = mars_env.make("arithmetic-solve-verify-correct")
        >>> judge = lambda observation: "Correctness: Correct"
        >>> view = as_gymnasium(env, learner="solver_0", partners={"verifier": judge, "corrector": str})
        >>> observation, info = view.reset(seed=0)
        >>> sorted(observation)
        ['problem']
        >>> view.step("\\boxed{1000}")[1:4]
        (0.0, True, False)
    """

    def __init__(
        self, env: MarsEnv, *, learner: str, partners: Mapping[str, Player] = MappingProxyType({})
    ) -> None:
        if not isinstance(env, MarsEnv):
            raise ConfigError(f"a Gymnasium view shows a MarsEnv, as make() gives it, not {brief(env)}")
        if not isinstance(partners, Mapping):
            raise ConfigError(f"partners are given by agent or role, not as {brief(partners)}")
        if learner not in env.possible_agents:
            there = choices(learner, env.possible_agents)
            raise ConfigError(f"the learner {learner!r} is not one of {there}")
        alone = [role_of(agent) for agent in env.possible_agents].count(role_of(learner)) == 1
        if learner in partners or (alone and role_of(learner) in partners):
            raise ConfigError(f"{learner!r} is the learner and cannot be a partner too")
        self.env, self.learner = env, learner
        self.metadata = dict(env.metadata)
        self.render_mode = env.render_mode
        self.observation_space = env.observation_space(learner)
        self.action_space = env.action_space(learner)
        self._agents = assign_agents(env, {**partners, learner: _no_action})

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Play to the learner's first turn, in a later episode if it has none (a ConfigError after 1,000)."""
        super().reset(seed=seed)
        for _ in range(_MAX_EPISODES):
            self.env.reset(seed=seed, options=options)
            seed = None
            self._play_partners()
            if not self.env.terminations[self.learner]:
                return self.env.observe(self.learner), dict(self.env.infos[self.learner])
        raise ConfigError(f"in {_MAX_EPISODES} episodes {self.learner} had no turn: its partners end them")

    def step(self, action: str | Action) -> tuple[dict[str, Any], SupportsFloat, bool, bool, dict[str, Any]]:
        """Act for the learner, then play the partners to its next turn; the reward is the learner's sum."""
        self.env.step(action)
        reward = self.env.rewards[self.learner] + self._play_partners()
        observation, info = self.env.observe(self.learner), dict(self.env.infos[self.learner])
        return observation, reward, self.env.terminations[self.learner], False, info

    def render(self) -> str | None:
        """The transcript so far."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _play_partners(self) -> float:
        """Play until it is the learner's turn or the end; the learner's reward on the way."""
        reward = 0.0
        while not self.env.terminations[self.learner] and self.env.agent_selection != self.learner:
            agent = self.env.agent_selection
            seed = derive_seed(self.env.tree_seed, len(self.env.tree.turns))
            [action] = run_sync(self._agents[agent].act(self.env.observe(agent), 1, seed))
            self.env.step(action)
            reward += self.env.rewards[self.learner]
        return reward


as_gymnasium = GymnasiumView


def _no_action(observation: object) -> str:
    raise AssertionError("the learner acts through step")
