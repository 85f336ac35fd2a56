"""Grading stored trees again: only verdicts and rewards change, and no agent acts."""

from __future__ import annotations

from dataclasses import replace

from mars_env.envs.game import Game
from mars_env.envs.growers import TreeNode
from mars_env.envs.rewards import REWARD_FAULTS, with_rewards
from mars_env.envs.visibility import next_state
from mars_env.types import Tree


async def regrade(tree: Tree, game: Game) -> Tree:
    r"""The tree with the grades and rewards that this game gives it now.

    Example:
        >>> from mars_env.envs import Solve
        >>> from mars_env.grading import grader_for
        >>> from mars_env.sync import run_sync
        >>> from mars_env.types import Action, Problem, Turn
        >>> turn = Turn("p#0", "0", None, "p#0/0", "solver_0", "", "p", Action("\\boxed{4}"))
        >>> tree = Tree("p#0", Problem("p", "2 + 2?", "4"), (turn,))
        >>> run_sync(regrade(tree, Game(Solve(), grader_for("math")))).turns[0].reward
        1.0
    """
    nodes: dict[str | None, TreeNode] = {None: TreeNode(None, game.rules.start(tree.problem))}
    for turn in tree.turns:
        parent = nodes[turn.parent_id]
        grade = await game.grade(tree.problem, parent.state, turn.action)
        search_score = turn.search_score
        if game.visibility is not None and game.visibility.grader is None:  # the search sees the grade itself
            search_score = None if grade is None else grade.score
        graded = replace(turn, grade=grade, search_score=search_score)
        graded = await game.rewarded(graded, parent.path, tree.problem)
        nodes[turn.id] = parent.child(graded, next_state(game.rules, game.visibility, parent.state, graded))
    turns = tuple(node.turn for node in nodes.values() if node.turn is not None)
    info = {key: value for key, value in tree.info.items() if key != REWARD_FAULTS}
    return with_rewards(*await game.team_rewarded(replace(tree, turns=turns, info=info)))
