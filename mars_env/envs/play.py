"""Steps of an episode: from an agent's action to a graded, rewarded turn; from the last turn to the tree."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mars_env.checks import valid_count
from mars_env.envs.game import Game
from mars_env.envs.growers import Expansion, TreeNode
from mars_env.envs.rewards import REWARD_FAULT
from mars_env.envs.visibility import next_state, search_record
from mars_env.errors import MarsError, ModelError
from mars_env.seeds import derive_seed
from mars_env.sync import only_own_cancellation
from mars_env.text import brief, describe_error, logger
from mars_env.types import Action, Problem, Tree, Turn

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Act:
    """An agent's action, with what a turn records of it: which weights acted, and for how long."""

    action: Action
    policy: str = ""
    seconds: float = 0.0


async def play_turn(
    game: Game, problem: Problem, tree: str, expansion: Expansion, index: int, act: Act
) -> TreeNode:
    """The node that an action leads to, the turn `index` of an expansion: graded, rewarded, applied."""
    action, parent = act.action, expansion.parent
    note = game.rules.note(parent.state, action)
    grade, search_grade = await game.grades(parent.state, action)
    search_score, visible = search_record(game.visibility, search_grade)
    turn = Turn(
        tree_id=tree,
        id=expansion.turn_ids[index],
        parent_id=parent.turn.id if parent.turn else None,
        group_id=expansion.group,
        agent=expansion.agent,
        policy=act.policy,
        problem_id=problem.id,
        action=action,
        grade=grade,
        search_score=search_score,
        info={**note, **expansion.note, **visible},
        seconds=act.seconds,
    )
    turn = await game.rewarded(turn, parent.path, problem)
    if why := turn.info.get(REWARD_FAULT):
        log.warning("turn %s of tree %s has no reward: %s", turn.id, tree, why)
    return parent.child(turn, next_state(game.rules, game.visibility, parent.state, turn, note))


async def conclude(
    game: Game, tree: Tree, proposed: str | None, seed: int
) -> tuple[Tree, Mapping[str, float | None]]:
    """The finished tree with its final choice, none after a fault, and its team rewards, not yet in it."""
    return await game.team_rewarded(tree if tree.fault else await _chosen(game, tree, proposed, seed))


async def _chosen(game: Game, tree: Tree, proposed: str | None, seed: int) -> Tree:
    try:
        with only_own_cancellation():
            choice_seed = derive_seed(seed, tree.id, "final choice")
            choice = await game.choose(tree.problem, tree.turns, proposed, choice_seed)
        if choice.turn is not None and choice.turn not in {turn.id for turn in tree.turns}:
            raise ModelError(f"it chose the turn {brief(choice.turn)}, which the tree does not have")
        valid_count(choice.tokens)
    except Exception as error:  # a user's reward model may raise anything; one tree must not end the run
        fault = f"the final choice: {describe_error(error)}"
        log.warning("tree %s has no answer: %s", tree.id, fault, exc_info=not isinstance(error, MarsError))
        return replace(tree, fault=fault)
    info = {**tree.info, "choice_tokens": choice.tokens} if choice.tokens else tree.info
    return replace(tree, final=choice.turn, info=info)
