"""One tree of a run is read without the others."""

import pytest
from sums_team import sums

from mars_env.errors import StoreError
from mars_env.rollout import Store, read_run
from mars_env.rollout.tree_index import TreeIndex
from mars_env.types import Action, Tree, Turn

PROBLEMS = sums(3)


def tree_of(problem, text="4", fault=""):
    turn = Turn(f"{problem.id}#0", "0", None, "g", "solver_0", "", problem.id, Action(text))
    return Tree(turn.tree_id, problem, (turn,), None if fault else "0", fault)


def write(store, tree):
    store.write_turns(tree.turns)
    store.write_tree(tree, {})


def test_a_tree_is_found_before_and_after_others_are_written(tmp_path):
    with Store(tmp_path, {}, PROBLEMS) as store:
        write(store, tree_of(PROBLEMS[0]))
        index = TreeIndex(tmp_path)
        assert index.tree("sum/0#0", PROBLEMS[0]) == tree_of(PROBLEMS[0])
        with pytest.raises(StoreError):
            index.tree("sum/1#0", PROBLEMS[1])
        store.write_tree(tree_of(PROBLEMS[1], fault="gone"), {})
        write(store, tree_of(PROBLEMS[1], "5"))  # the last row of a tree counts
        assert index.tree("sum/1#0", PROBLEMS[1]) == tree_of(PROBLEMS[1], "5")
    trees = read_run(tmp_path).trees
    assert tuple(index.tree(tree.id, tree.problem) for tree in trees) == trees
