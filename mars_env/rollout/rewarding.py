"""New rewards for stored trees: by id, by a reward function, by a grader, or as their game gives them now."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mars_env.checks import finite
from mars_env.envs.game import Game
from mars_env.envs.growers import TreeNode
from mars_env.envs.rewards import REWARD_FAULTS, with_rewards
from mars_env.envs.visibility import next_state
from mars_env.errors import StoreError, explained
from mars_env.rollout.store import Run, Store, read_run
from mars_env.sync import call_async, maybe_await
from mars_env.text import raised
from mars_env.types import Grader, Reward, Tree, Turn

Rewards = Mapping[str, float | None]
"""By id: of a turn (``"aime/3#0/1.0"``), of a recorder's answer (``"chatcmpl-..."``), or of a whole tree."""

_ByTree = defaultdict[str, dict[str, float | None]]


def attach_rewards(path: str | Path, rewards: Rewards) -> int:
    """Give turns of a stored run their rewards (None: unknown); returns how many got one.

    Nothing may write the run meanwhile: stop its recorder first. A `StoreError` if there is no such turn, or
    a reward is not a finite number.
    """
    run = read_run(path)
    named: defaultdict[str, list[Turn]] = defaultdict(list)
    for tree in run.trees:
        for turn in tree.turns:
            for name in {f"{tree.id}/{turn.id}", tree.id, str(turn.info.get("id", ""))} - {""}:
                named[name].append(turn)
    by_tree: _ByTree = defaultdict(dict)
    for name, reward in rewards.items():
        if name not in named:
            raise StoreError(f"{path} has no turn, tree or answer with the id {name!r}")
        with explained(StoreError, f"the reward of {name!r}", ValueError):
            value = None if reward is None else finite(reward)
        for turn in named[name]:
            by_tree[turn.tree_id][turn.id] = value
    return _write(path, run, by_tree)


async def reward_run(path: str | Path, reward: Reward) -> int:
    """Give every turn of a stored run the reward of a function, whose errors are a `StoreError`.

    A turn that the set-up has cut off (`Action.interrupted`) gets None; else as `attach_rewards`.
    """
    run = read_run(path)
    by_tree: _ByTree = defaultdict(dict)
    for tree in run.trees:
        paths: dict[str | None, tuple[Turn, ...]] = {None: ()}
        for turn in tree.turns:
            before = paths[turn.parent_id]
            paths[turn.id] = (*before, turn)
            if turn.action.interrupted:
                by_tree[tree.id][turn.id] = None
                continue
            try:
                value = await maybe_await(reward(turn, before, tree.problem))
                by_tree[tree.id][turn.id] = None if value is None else finite(value)
            except Exception as error:  # a user's function may raise anything
                raise StoreError(f"the reward of turn {turn.id} of {tree.id}: {raised(error)}") from error
    return _write(path, run, by_tree)


async def grade_run(path: str | Path, grader: Grader) -> int:
    """Give all turns of a tree the score of its answer, the turn that was played last; as `attach_rewards`.

    An UNKNOWN verdict makes the rewards unknown, and so does an answer that the set-up has cut off
    (`Action.interrupted`); another turn that was cut off has no reward.

    Raises:
        StoreError: The run has no reference of a tree's problem (``mars-env record --problems``), or was not
            recorded: its game has graded the turns (`regrade` grades them again).
    """
    run = read_run(path)
    by_tree: _ByTree = defaultdict(dict)
    trees = []
    for tree in run.trees:
        if not tree.turns:
            continue
        if tree.problem.reference is None:
            raise StoreError(
                f"no reference is known for {tree.id}: record it with the problems, by their ids"
            )
        if any(type(turn.info.get("number")) is not int for turn in tree.turns):
            raise StoreError(f"the game of {tree.id} has graded it: give --function or --rewards for others")
        answer = max(tree.turns, key=lambda turn: turn.info["number"])
        cut = answer.action.interrupted
        score = None if cut else (await call_async(grader.grade, tree.problem, answer.text)).score
        trees.append(replace(tree, final=answer.id))
        by_tree[tree.id] = {t.id: None if t.action.interrupted else score for t in tree.turns}
    return _write(path, replace(run, trees=tuple(trees)), by_tree)


async def regrade(tree: Tree, game: Game) -> Tree:
    r"""The tree with the grades and rewards that this game gives it now.

    Example:
        >>> from mars_env.envs import solve
        >>> from mars_env.grading import grader_for
        >>> from mars_env.sync import run_sync
        >>> from mars_env.types import Action, Problem, Turn
        >>> turn = Turn("p#0", "0", None, "p#0/0", "solver_0", "", "p", Action("\\boxed{4}"))
        >>> tree = Tree("p#0", Problem("p", "2 + 2?", "4"), (turn,))
        >>> run_sync(regrade(tree, Game(solve(), grader_for("math")))).turns[0].reward
        1.0
    """
    nodes: dict[str | None, TreeNode] = {None: TreeNode(None, game.rules.start(tree.problem))}
    for turn in tree.turns:
        parent = nodes[turn.parent_id]
        grade = await game.grade(parent.state, turn.action)
        search_score = turn.search_score
        if game.visibility is not None and game.visibility.grader is None:  # the search sees the grade itself
            search_score = None if grade is None else grade.score
        graded = replace(turn, grade=grade, search_score=search_score)
        graded = await game.rewarded(graded, parent.path, tree.problem)
        nodes[turn.id] = parent.child(graded, next_state(game.rules, game.visibility, parent.state, graded))
    turns = tuple(node.turn for node in nodes.values() if node.turn is not None)
    info = {key: value for key, value in tree.info.items() if key != REWARD_FAULTS}
    return with_rewards(*await game.team_rewarded(replace(tree, turns=turns, info=info)))


def _write(path: str | Path, run: Run, by_tree: _ByTree) -> int:
    """Write the trees that have new rewards; the last row of a tree counts."""
    must_match, may_change = run.manifest["must_match"], run.manifest["may_change"]
    with Store(path, must_match, list(run.problems.values()), may_change=may_change) as store:
        for tree in run.trees:
            if tree.id in by_tree:
                store.write_tree(tree, {turn.id: turn.reward for turn in tree.turns} | by_tree[tree.id])
    return sum(map(len, by_tree.values()))
