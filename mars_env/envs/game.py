"""A game: everything that an episode needs, except problem and agents."""

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mars_env.checks import finite
from mars_env.envs.game_function import validate_rewards, validate_roles
from mars_env.envs.growers import Linear, MakeGrower
from mars_env.envs.registry import EnvSpec, find_game
from mars_env.envs.rewards import MARSRL_REWARDS, REWARD_FAULTS, checked_team_rewards, outcome, with_reward
from mars_env.envs.rules import Rules, State
from mars_env.envs.selection import Choice, candidates
from mars_env.envs.visibility import Visibility, visible_problem, visible_turns
from mars_env.errors import ConfigError
from mars_env.grading import grader_for
from mars_env.lazy import import_object, imported
from mars_env.sync import call_async, only_own_cancellation
from mars_env.text import brief, raised
from mars_env.types import Action, Grade, Grader, Problem, Reward, TeamReward, Tree, Turn, role_of


@dataclass(frozen=True, slots=True)
class Game:
    """Rules, and how their turns are judged and rewarded; the parts are those of `mars_env.game`.

    Attributes:
        grading_timeout: Seconds that a grader may take; after them the grade is UNKNOWN. Generous, since a
            verdict may have to wait behind thousands of others.
        turn_timeout: Seconds that an agent may take for a turn; after them its tree has a fault.
        needs_reference: Whether the grader compares with references, as the library's own do. Then a problem
            without one is played, but nothing in it is graded.
    """

    rules: Rules
    grader: Grader
    rewards: Mapping[str, Reward] = field(default_factory=lambda: dict(MARSRL_REWARDS))
    team_reward: TeamReward | None = None
    grower: MakeGrower = Linear
    visibility: Visibility | None = None
    grading_timeout: float = 3600.0
    turn_timeout: float | None = None
    needs_reference: bool = False

    def __post_init__(self) -> None:
        limit: Any = self.turn_timeout
        if limit is not None and (type(limit) not in (int, float) or not limit > 0):
            raise ConfigError(f"turn_timeout must be more than 0 seconds, got {brief(limit)}")
        validate_rewards(self.rewards, self.team_reward)

    def can_grade(self, problem: Problem) -> bool:
        """Whether turns on this problem can be graded: it has a reference, or the grader needs none."""
        return problem.reference is not None or not self.needs_reference

    async def grade(self, state: State, action: Action) -> Grade | None:
        """The grade of an action on a state; None where the rules submit nothing, or nothing can be graded.

        It is UNKNOWN where the grader raises or does not answer, or the set-up cut the action off.
        """
        text = self.rules.submission(state, action)
        problem = self.rules.posed(state)
        if text is None or not self.can_grade(problem):
            return None
        return await self._judged(self.grader, problem, action, text)

    async def grades(self, state: State, action: Action) -> tuple[Grade | None, Grade | None]:
        """The grade of an action, and its search grade (see `mars_env.envs.visibility`)."""
        text = self.rules.submission(state, action)
        if text is None:
            return None, None
        if self.visibility is None or self.visibility.grader is None:
            grade = await self.grade(state, action)
            return grade, None if self.visibility is None else grade
        visible = visible_problem(self.rules.posed(state), action.truncated)
        search_grade = self._judged(self.visibility.grader, visible, action, text)
        return await asyncio.gather(self.grade(state, action), search_grade)

    async def choose(self, problem: Problem, turns: Sequence[Turn], first: str | None, seed: int) -> Choice:
        """The final choice: the selection's among a search's best nodes, else what the grower proposes."""
        if self.visibility is None or self.visibility.selection is None or first is None:
            return Choice(first)
        turns = visible_turns(candidates(turns))
        return await self.visibility.selection.choose(visible_problem(problem), turns, seed)

    async def rewarded(self, turn: Turn, path: Sequence[Turn], problem: Problem) -> Turn:
        """The turn with its step reward, given the turns that led to it.

        A reward function that raises, is late, or gives anything but a finite number or None is a fault of
        the machinery: the reward is None, and the turn's info says why. A turn that the set-up has cut off
        (`Action.interrupted`) has none either.
        """
        if turn.action.interrupted:
            return with_reward(turn, None)
        function = self.rewards.get(role_of(turn.agent), outcome)
        try:
            with only_own_cancellation():
                reward = await self._answer(function(turn, path, problem))
        except Exception as error:  # a user's reward may raise anything; it must not end the run
            return with_reward(turn, None, f"the reward raised {raised(error)}")
        try:
            return with_reward(turn, None if reward is None else finite(reward))
        except ValueError as error:
            return with_reward(turn, None, f"the reward is invalid: {error}")

    async def team_rewarded(self, tree: Tree) -> tuple[Tree, Mapping[str, float | None]]:
        """A finished tree and its new rewards by turn id; none without a team reward.

        They are None in a tree that a fault has ended: what its turns would have led to is unknown. If the
        team reward fails, the rewards that it would have given are None, and the tree's info says why.
        """
        if self.team_reward is None:
            return tree, {}
        if tree.fault:
            return tree, {turn.id: None for turn in tree.turns}
        rewards: dict[str, float | None]
        try:
            with only_own_cancellation():
                rewards, faults = checked_team_rewards(await self._answer(self.team_reward(tree)), tree)
        except Exception as error:  # a user's reward may raise anything; it must not end the run
            why = f"the team reward failed: {raised(error)}"
            rewards, faults = {t.id: None for t in tree.turns}, {t.id: why for t in tree.turns}
        rewards.update({turn.id: None for turn in tree.turns if turn.action.interrupted})
        return (replace(tree, info={**tree.info, REWARD_FAULTS: faults}) if faults else tree), rewards

    async def _judged(self, grader: Grader, problem: Problem, action: Action, text: str) -> Grade:
        if action.interrupted:
            return Grade.unknown(action.interrupted)
        try:
            with only_own_cancellation():
                grade = await self._answer(call_async(grader.grade, problem, text))
        except Exception as error:  # a user's grader may raise anything; it must not end the run
            return Grade.unknown(f"the grader raised {raised(error)}")
        if not isinstance(grade, Grade):
            return Grade.unknown(f"the grader returned {type(grade).__name__} where a Grade was asked for")
        return grade

    async def _answer(self, value: Any) -> Any:
        """What a user's function gives, sync or async; a limit holds for what is awaited."""
        if not inspect.isawaitable(value):
            return value
        limit = asyncio.timeout(self.grading_timeout)
        try:
            async with limit:
                return await value
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(f"no answer within {self.grading_timeout:g} s") from None
            raise


def make_game(env_spec: EnvSpec, *, kind: str = "math") -> Game:
    """The game of a spec, with all its parts made. The problems' kind chooses the grader.

    A `ConfigError` if the settings do not fit, or a reward names a role that does not exist.

    Example:
        >>> from mars_env.envs.registry import spec
        >>> make_game(spec("aime-solve-verify-correct", rounds=1)).rules.settings.rounds
        1
    """
    if env_spec.module:
        imported(env_spec.module, env_spec.id)
    chosen = find_game(env_spec.game)
    options, rules = chosen.options, chosen.rules(env_spec.settings, kind)
    validate_rewards(env_spec.rewards, None)
    validate_roles(chosen.name, env_spec.rewards, rules.possible_agents)
    rewards = {**options.rewards, **env_spec.rewards}
    grower = _part(env_spec.grower or options.grower)
    if grower is not None and not callable(grower):
        raise ConfigError(f"a grower is a function of rules, problem, tree and seed, not {brief(grower)}")
    grader = as_grader(options.grader if env_spec.grader is None else env_spec.grader)
    return Game(
        rules=rules,
        grader=grader_for(kind) if grader is None else grader,
        rewards={role: _part(reward) for role, reward in rewards.items()},
        team_reward=_part(options.team_reward if env_spec.team_reward is None else env_spec.team_reward),
        grower=grower or Linear,
        visibility=options.visibility(rules.settings, kind) if options.visibility else None,
        turn_timeout=env_spec.turn_timeout,
        needs_reference=grader is None,
    )


def as_grader(value: Any) -> Grader | None:
    """A grader from itself, its class, or the name of either."""
    grader_or_class = _part(value)
    grader = grader_or_class() if isinstance(grader_or_class, type) else grader_or_class
    if grader is not None and not isinstance(grader, Grader):
        raise ConfigError(
            f"a grader has a method `grade(problem, text)`, async or not, and {brief(grader)} has none"
        )
    return grader


def _part(value: Any) -> Any:
    return import_object(value) if isinstance(value, str) else value
