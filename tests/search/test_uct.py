import math

import numpy as np

from mars_env.search import UCT, Ask, UCTSettings

RNG = np.random.default_rng(0)


def grow(nodes, agents=("a",), **options):
    algorithm = UCT(agents, UCTSettings(**options))
    for id, (parent, agent, score) in enumerate(nodes):
        algorithm.add(Ask(id, parent, agents[agent]))
        algorithm.score(Ask(id, parent, agents[agent]), score)
    return algorithm


def test_it_goes_into_the_child_with_the_highest_upper_bound():
    #  root: 0 (.5), 1 (.4); 0 has two dull children, so that its mean falls to .3 at 3 visits
    nodes = [(None, 0, 0.5), (None, 0, 0.4), (0, 0, 0.2), (0, 0, 0.2)]
    visits, exploration = 4, 0.1
    bounds = [
        0.9 / 3 + exploration * math.sqrt(math.log(visits) / 3),
        0.4 / 1 + exploration * math.sqrt(math.log(visits) / 1),
    ]
    assert bounds[1] > bounds[0]
    assert grow(nodes, exploration=exploration).choose(RNG) == (1, "a")
    brighter = [*nodes[:2], (0, 0, 0.9), (0, 0, 0.9)]
    assert grow(brighter, exploration=exploration).choose(RNG) == (2, "a")


def test_pending_nodes_send_the_next_ask_elsewhere_and_a_full_tree_waits():
    algorithm = grow([(None, 0, 0.9), (None, 0, 0.1)])
    chosen = []
    while (choice := algorithm.choose(RNG)) is not None:
        algorithm.add(Ask(2 + len(chosen), *choice))
        chosen.append(choice[0])
    assert sorted(chosen) == [0, 0, 1, 1]  # both children are filled; then all there is to expand is pending
    algorithm.drop(Ask(2 + chosen.index(1), 1, "a"))
    assert algorithm.choose(RNG) == (1, "a")
