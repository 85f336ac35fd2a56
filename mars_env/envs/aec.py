"""The one PettingZoo shell: `MarsEnv` plays any game as an agent-environment cycle."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from pettingzoo import AECEnv

from mars_env.checks import require_integer, valid_action
from mars_env.envs.game import Game
from mars_env.envs.growers import Expansion, Grower, TreeNode
from mars_env.envs.play import Act, conclude, play_turn
from mars_env.envs.rewards import with_rewards
from mars_env.envs.spaces import UnicodeText
from mars_env.envs.visibility import visible_info
from mars_env.errors import ConfigError, explained
from mars_env.problems import ProblemSet
from mars_env.seeds import derive_seed
from mars_env.sync import run_sync
from mars_env.text import brief, choices, suggestion, visible
from mars_env.types import Action, Problem, Tree, Verdict

_AFTER_RESET = {
    *("agent_selection", "infos", "problem", "rewards", "terminations", "tree", "tree_seed"),
    *("truncations", "_cumulative_rewards", "_grower", "_order"),
}
"""What an episode has: `MarsEnv.reset` sets it."""

NO_GRADE = "the answer could not be graded: the grade in the environment's `tree` says why"
"""What an info says of an UNKNOWN grade. The grader's own message may quote the reference."""


class _NotReset(ConfigError, AttributeError):
    """Something of an episode was asked for before the first one."""


class MarsEnv(AECEnv[str, dict[str, Any], str]):  # type: ignore[misc]  # untyped base
    """Plays a game over a problem set, one agent's turn at a time.

    Actions are strings (or `Action` values, which carry the completions behind a string), observations
    dictionaries of strings and small integers. The reward of a turn goes to the agent that acted; PettingZoo
    has no unknown rewards, so that of an UNKNOWN turn is shown as 0.0 with ``infos[agent]["grade"] ==
    "UNKNOWN"``. `tree` is the record of the episode so far. With the `render_mode` ``"ansi"`` the transcript
    is returned, with ``"human"`` printed.

    Example:
        >>> import mars_env
        >>> env = mars_env.make("arithmetic-solve-verify-correct")
        >>> env.reset(seed=0)
        >>> env.step("I do not know.")
        >>> env.rewards["solver_0"], env.agent_selection
        (0.0, 'verifier_0')
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "human"], "is_parallelizable": False}  # noqa: RUF012 (PettingZoo's)

    def __init__(
        self, game: Game, problems: ProblemSet, *, name: str = "mars_env", render_mode: str | None = None
    ) -> None:
        super().__init__()
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ConfigError(f"render_mode must be None, 'ansi' or 'human', got {render_mode!r}")
        self.game, self.problems, self.render_mode = game, problems, render_mode
        self.metadata = {**self.metadata, "name": name}
        self.possible_agents = list(game.rules.possible_agents)
        rules = game.rules
        self.observation_spaces = {
            agent: gymnasium.spaces.Dict(dict(rules.fields(agent))) for agent in self.possible_agents
        }
        self.action_spaces = {agent: UnicodeText() for agent in self.possible_agents}
        self._rng = np.random.default_rng()
        self._episode = -1
        self.agents: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in _AFTER_RESET:
            raise _NotReset("no episode has begun: call reset() first")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def observation_space(self, agent: str) -> gymnasium.Space[Any]:
        """The agent's observation space, the same object every time."""
        return self.observation_spaces[self._known(agent)]

    def action_space(self, agent: str) -> gymnasium.Space[Any]:
        """The agent's action space: any text."""
        return self.action_spaces[self._known(agent)]

    def _known(self, agent: str) -> str:
        if agent not in self.possible_agents:
            there = choices(agent, self.possible_agents)
            raise ConfigError(f"there is no agent {brief(agent)}; the agents are {there}")
        return agent

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode on a drawn problem, or on ``options["problem"]``, an id or a `Problem`.

        A seed makes this episode, and the problems drawn after it, reproducible.
        """
        if options is not None and not isinstance(options, Mapping):
            raise ConfigError(f"options are a dictionary such as {{'problem': id}}, not {brief(options)}")
        for name in options or ():  # PettingZoo's own tests pass options that mean nothing
            if name != "problem" and (hint := suggestion(name, ["problem"])):
                raise ConfigError(f"there is no option {brief(name)}{hint}")
        if seed is not None:
            self._rng, self._episode = np.random.default_rng(require_integer(seed, "seed", 0)), -1
        self._episode += 1
        self.problem = self._pick((options or {}).get("problem"))
        tree_id = f"{self.problem.id}#{self._episode}"
        self.tree = Tree(tree_id, self.problem, ())
        self.tree_seed = derive_seed(int(self._rng.integers(2**63)), tree_id)
        self._grower: Grower = self.game.grower(self.game.rules, self.problem, tree_id, self.tree_seed)

        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {a: {"problem_id": self.problem.id} for a in self.agents}
        self._skip_agent_selection = None
        self._next()

    def last(self, observe: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """What the agent whose turn it is sees and has earned; a `ConfigError` once the episode is over."""
        if not self.agents:
            raise ConfigError("the episode is over: call reset() to start another")
        return super().last(observe)

    def observe(self, agent: str) -> dict[str, Any]:
        """What the agent sees now; the reference is never in it."""
        return dict(self.game.rules.observe(self._order.parent.state, self._known(agent)))

    def step(self, action: str | Action | None) -> None:
        """Let the agent whose turn it is act: by a string or an `Action`; None once the episode is over."""
        agent = self.agent_selection
        if not self.agents:
            raise ConfigError("the episode is over: call reset() to start another")
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if not isinstance(action, str | Action):
            kind = type(action).__name__
            raise ConfigError(f"the action of {agent} must be a string or an Action, got {kind}")
        acted = action if isinstance(action, Action) else Action(action)
        with explained(ConfigError, f"the action of {agent} cannot be played", ValueError):
            acted = valid_action(acted)
        self._clear_rewards()
        self._cumulative_rewards[agent] = 0.0

        node = run_sync(play_turn(self.game, self.problem, self.tree.id, self._order, 0, Act(acted)))
        turn = node.turn
        assert turn is not None
        self.tree = replace(self.tree, turns=(*self.tree.turns, turn))
        self._grower.tell(self._order, [node])
        self.rewards[agent] = 0.0 if turn.reward is None else turn.reward
        self.infos[agent] = {"problem_id": self.problem.id, "turn_id": turn.id, **visible_info(turn)}
        if turn.grade is not None:
            self.infos[agent]["grade"] = turn.grade.verdict.value
            if turn.grade.verdict is Verdict.UNKNOWN:
                self.infos[agent]["reason"] = acted.interrupted or NO_GRADE
        if turn.reward is None:
            self.infos[agent]["reward_unknown"] = True
        self._next(node)
        self._accumulate_rewards()
        if self.render_mode == "human":
            self.render()

    def render(self) -> str | None:
        """The transcript so far, returned (``ansi``) or printed (``human``)."""
        lines = [f"Problem {self.problem.id}: {self.problem.statement}"]
        for turn in self.tree.turns:
            verdict = f" [{turn.grade.verdict}]" if turn.grade else ""
            lines.append(f"--- {turn.agent} ({turn.id}){verdict}, reward {turn.reward}\n{turn.text}")
        text = "\n".join(lines) + "\n"
        if self.render_mode == "human":
            sys.stdout.write(visible(text))
            return None
        return text

    def close(self) -> None:
        """Nothing to release: graders and their workers belong to the game, not to one environment."""

    def _pick(self, choice: str | Problem | None) -> Problem:
        if choice is None:
            return self.problems[int(self._rng.integers(len(self.problems)))]
        if isinstance(choice, Problem):
            if self.game.needs_reference and choice.kind != (kind := self.problems[0].kind):
                mismatch = f"{brief(choice.id)} is one of {choice.kind}: make another environment for it"
                raise ConfigError(f"this environment grades problems of {kind}, and {mismatch}")
            return choice
        if not isinstance(choice, str):
            raise ConfigError(f"options['problem'] is an id or a Problem, not {brief(choice)}")
        try:
            return self.problems.by_id(choice)
        except KeyError:
            raise ConfigError(f"the set {self.problems.name!r} has no problem {brief(choice)}") from None

    def _next(self, last: TreeNode | None = None) -> None:
        """Ask whose turn it is; end the episode if there is no next turn."""
        orders = self._grower.ask(1)
        if orders and len(orders[0].turn_ids) > 1:
            raise ConfigError("this grower asks for groups of turns: leave it out, or use mars_env.rollout")
        if orders:
            self._order: Expansion = orders[0]
            self.agent_selection = self._order.agent
            return
        if last is not None:  # observations after the end show the last state
            self._order = replace(self._order, parent=last)
        proposed = self._grower.final()
        before, rewards = run_sync(conclude(self.game, self.tree, proposed, self.tree_seed))
        self.tree = with_rewards(before, rewards)
        # Each agent gets the difference between the team's rewards and those of its turns.
        for earlier, turn in zip(before.turns, self.tree.turns, strict=True):
            self.rewards[turn.agent] += (turn.reward or 0.0) - (earlier.reward or 0.0)
            if turn.id in rewards and self.infos[turn.agent]["turn_id"] == turn.id:
                self.infos[turn.agent].pop("reward_unknown", None)
        for turn in self.tree.turns:
            if turn.reward is None and turn.id in rewards:
                self.infos[turn.agent]["reward_unknown"] = True
        self.terminations = dict.fromkeys(self.agents, True)
        self._deads_step_first()
