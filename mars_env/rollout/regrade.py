"""Grading stored trees again: verdicts, rewards and nothing else change, and nobody plays."""

from __future__ import annotations

from dataclasses import replace

from mars_env.envs.game import Game
from mars_env.envs.growers import Node
from mars_env.envs.play import follow
from mars_env.rollout.engine import with_rewards
from mars_env.types import Tree, Turn


async def regrade(tree: Tree, game: Game) -> Tree:
    r"""The tree as this game's grader and rewards judge it now.

    Example:
        >>> from mars_env.envs import Solve
        >>> from mars_env.grading import grader_for
        >>> from mars_env.sync import run_sync
        >>> from mars_env.types import Action, Problem
        >>> turn = Turn("p#0", "0", None, "p#0/0", "solver_0", "", "p", Action("\\boxed{4}"))
        >>> tree = Tree("p#0", Problem("p", "2 + 2?", "4"), (turn,))
        >>> run_sync(regrade(tree, Game(Solve(), grader_for("math")))).turns[0].reward
        1.0
    """
    nodes: dict[str | None, Node] = {None: Node(None, game.rules.start(tree.problem))}
    paths: dict[str | None, tuple[Turn, ...]] = {None: ()}
    for turn in tree.turns:
        state, path = nodes[turn.parent].state, paths[turn.parent]
        grade = await game.grade(tree.problem, state, turn.action)
        search_score = turn.search_score
        if game.evidence is not None and game.evidence.grader is None:  # the search sees the grade itself
            search_score = None if grade is None else grade.score
        graded = replace(turn, grade=grade, search_score=search_score)
        graded = replace(graded, reward=await game.reward(graded, path, tree.problem))
        nodes[turn.id] = Node(graded, follow(game, state, graded))
        paths[turn.id] = (*path, graded)
    turns = tuple(node.turn for node in nodes.values() if node.turn is not None)
    graded_tree = replace(tree, turns=turns)
    return with_rewards(graded_tree, await game.team_rewards(graded_tree))
