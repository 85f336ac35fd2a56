"""Steps of an episode: from an agent's action to a graded, rewarded turn; from the last turn to the tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mars_env.checks import valid_count
from mars_env.envs.game import Game
from mars_env.envs.growers import Expansion, Node
from mars_env.envs.rewards import REWARD_FAULT
from mars_env.envs.visibility import next_state, record
from mars_env.errors import ConfigError, MarsError, ModelError
from mars_env.seeds import derive_seed
from mars_env.sync import only_own_cancellation
from mars_env.text import describe_error, logger, shown
from mars_env.types import Action, Problem, Tree, Turn

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Act:
    """An agent's action, with what a turn records of it: which weights acted, and for how long."""

    action: Action
    policy: str = ""
    seconds: float = 0.0


async def judge(
    game: Game,
    problem: Problem,
    tree: str,
    expansion: Expansion,
    index: int,
    act: Act,
    path: Sequence[Turn],
) -> Node:
    """The node that one action of an expansion leads to: graded, rewarded, applied.

    Args:
        game: What is played.
        problem: The problem of the tree.
        tree: Id of the tree.
        expansion: The expansion that the action is a part of.
        index: Which of the expansion's turns this is.
        act: What the agent did.
        path: The turns from the root down to the expansion's parent.
    """
    action, state = act.action, expansion.parent.state
    note: Any = game.rules.note(state, action)
    if not isinstance(note, Mapping):
        raise ConfigError(f'note() of the rules gives a mapping such as {{"choice": 1}}, not {shown(note)}')
    info = {**note, **expansion.note}
    grade, search_grade = await game.grades(problem, state, action)
    search_score, visible = record(game.visibility, search_grade)
    info |= visible
    known: dict[str, Any] = {
        "tree_id": tree,
        "id": expansion.turn_ids[index],
        "parent_id": expansion.parent.turn.id if expansion.parent.turn else None,
        "group_id": expansion.group,
        "agent": expansion.agent,
        "policy": act.policy,
        "problem_id": problem.id,
        "action": action,
        "grade": grade,
        "search_score": search_score,
        "info": info,
        "seconds": act.seconds,
    }
    reward, why = await game.reward(Turn(**known), path, problem)
    if why:
        log.warning("turn %s of tree %s has no reward: %s", known["id"], tree, why)
        known["info"] = {**info, REWARD_FAULT: why}
    turn = Turn(**known, reward=reward)
    return Node(turn, next_state(game.rules, game.visibility, state, turn))


async def conclude(
    game: Game,
    problem: Problem,
    tree: str,
    turns: Sequence[Turn],
    proposed: str | None,
    *,
    seed: int,
    fault: str = "",
) -> Tree:
    """The finished tree, its final choice made; team rewards are not in it yet.

    Args:
        game: What was played.
        problem: The problem of the tree.
        tree: Its id.
        turns: All of it.
        proposed: The grower's answer; a search's selection may choose another.
        seed: The tree's own; the only source of the choice's randomness.
        fault: Why the tree could not be finished; it then has no answer.
    """
    if fault:
        return Tree(tree, problem, tuple(turns), None, fault)
    try:
        with only_own_cancellation():
            choice = await game.choose(problem, turns, proposed, derive_seed(seed, tree, "final choice"))
        if choice.turn is not None and choice.turn not in {turn.id for turn in turns}:
            raise ModelError(f"it chose the turn {shown(choice.turn)}, which the tree does not have")
        valid_count(choice.tokens)
    except Exception as error:  # a user's reward model may raise anything; one tree must not end the run
        fault = f"the final choice: {describe_error(error)}"
        log.warning("tree %s has no answer: %s", tree, fault, exc_info=not isinstance(error, MarsError))
        return Tree(tree, problem, tuple(turns), None, fault)
    info = {"choice_tokens": choice.tokens} if choice.tokens else {}
    return Tree(tree, problem, tuple(turns), choice.turn, "", info)
