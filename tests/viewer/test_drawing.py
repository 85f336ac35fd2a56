"""Trees as pictures: every turn once, children under their parents, scores and visits, links."""

import re
from random import Random

import pytest
from shown_run import branched, episode, search

from mars_env.types import Action, Problem, Tree, Turn
from mars_env.viewer.drawing import MAX_NODES, picture, visits


def circles(svg):
    found = re.findall(r'<a href="#([^"]*)">.*?<circle class="node (\w+)" cx="([\d.]+)" cy="([\d.]+)"', svg)
    return {id: (kind, float(x), float(y)) for id, kind, x, y in found}


def test_a_search_is_drawn_as_a_tree():
    tree = search(Random(0), 0)
    svg = str(picture(tree, {turn.id: turn.id for turn in tree.turns}))
    nodes = circles(svg)
    assert set(nodes) == {turn.id for turn in tree.turns}
    assert len({(x, y) for _, x, y in nodes.values()}) == 9
    for turn in tree.turns:
        if turn.parent_id is not None:
            assert nodes[turn.id][2] > nodes[turn.parent_id][2]
    assert [id for id, (kind, _, _) in nodes.items() if kind == "right"] == [tree.final]
    assert svg.count('class="ring"') == 1 and "n=5" in svg and ">.50<" in svg and ">1.00<" in svg
    assert visits(tree)["0"] == 5 and visits(tree)["1"] == 3


@pytest.mark.parametrize("nodes", [2, MAX_NODES + 1])
def test_episodes_and_very_large_trees_are_not_drawn(nodes):
    chain = episode(Random(0), 0)
    assert picture(chain, {turn.id: turn.id for turn in chain.turns}) is None
    turns = tuple(Turn("t", str(i), None, "", "a_0", "", "p", Action("")) for i in range(nodes))
    drawn = picture(Tree("t", Problem("p", "?", "1"), turns), {turn.id: turn.id for turn in turns})
    assert (drawn is None) == (nodes > MAX_NODES)


def test_a_deep_tree_does_not_need_a_deep_stack():
    tree = branched(290)
    assert picture(tree, {turn.id: "x" for turn in tree.turns}) is not None
