from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mars_env.search import ABMCTSA, ABMCTSASettings, Ask

AGENTS = ("coder_0", "coder_1")


def grow(nodes, agents=AGENTS, pending=(), **options):
    """An algorithm that was told (parent, agent, score) of each node, by id."""
    algorithm = ABMCTSA(agents, ABMCTSASettings(**options))
    for id, (parent, agent, score) in enumerate(nodes):
        algorithm.add(Ask(id, parent, agents[agent]))
        algorithm.score(Ask(id, parent, agents[agent]), score)
    for offset, (parent, agent) in enumerate(pending):
        algorithm.add(Ask(len(nodes) + offset, parent, agents[agent]))
    return algorithm


def sums(arm):
    return (arm.n, arm.total, arm.squares)


def choices(algorithm, number=3000, seed=0):
    rng = np.random.default_rng(seed)
    return Counter(algorithm.choose(rng) for _ in range(number))


#        root
#       /    \
#    0 (.5)   1 (0)
#    |   \
#  2 (1)  3 (.25)
#           |
#          4 (.5)
TREE = [(None, 0, 0.5), (None, 1, 0.0), (0, 1, 1.0), (0, 0, 0.25), (3, 1, 0.5)]


def test_a_pending_expansion_counts_as_a_score_of_0_along_its_path_until_it_is_told():
    algorithm = grow(TREE, pending=[(3, 0)])
    [root] = algorithm._root.arms
    assert sums(root.cont) == (4, 1.75, 1.3125)
    assert root.rows[0].tolist() == [5, 2.25, 1.5625]
    assert sums(algorithm._nodes[3].arms[0].gen) == (2, 0.5, 0.25)
    assert sums(algorithm._by_agent["coder_0"]) == (3, 0.75, 0.3125)
    algorithm.score(Ask(5, 3, "coder_0"), 1.0)
    assert sums(root.cont) == (4, 2.75, 2.3125)
    assert root.rows[0].tolist() == [5, 3.25, 2.5625]


def test_a_lost_expansion_leaves_nothing():
    algorithm, untouched = grow(TREE, pending=[(3, 0), (None, 1)]), grow(TREE)
    algorithm.drop(Ask(5, 3, "coder_0"))
    algorithm.drop(Ask(6, None, "coder_1"))
    for id, node in untouched._nodes.items():
        for ours, theirs in zip(algorithm._nodes[id].arms, node.arms, strict=True):
            assert sums(ours.gen) == sums(theirs.gen)
            assert sums(ours.cont) == sums(theirs.cont)
            assert ours.rows.tolist() == theirs.rows.tolist()
    assert choices(algorithm, 200) == choices(untouched, 200)


def test_ucb_tries_every_agent_first():
    nodes = [(None, 0, 1.0)] * 5
    assert {agent for _, agent in choices(grow(nodes, choice="ucb"), 50)} == {"coder_1"}


def test_depth_guidance_is_the_formula():
    class Fixed:
        """Draws every arm's mean: the weights decide alone."""

        def draw(self, rng, n, total, squares):
            return total / np.maximum(n, 1)

    def decides(nodes, decay):
        algorithm = grow(nodes, agents=("a",), depth_decay=decay)
        algorithm._settings = algorithm._settings.model_copy(update={"prior": Fixed()})
        return algorithm.choose(np.random.default_rng(0))[0]

    # The root (d = 0, c = 2): GEN's mean is 0.6, CONT's 0.5. GEN while 0.6 g^2 >= 0.5, that is g >= 0.9129.
    tree = [(None, 0, 0.6), (None, 0, 0.6), (0, 0, 0.5)]
    assert decides(tree, 0.914) is None
    assert decides(tree, 0.912) is not None
    # Node 0 (d = 1, c = 2, g = decay^2): its GEN's mean is 0.6, its CONT's 0.5; the root always goes on.
    tree = [(None, 0, 0.0), (0, 0, 0.6), (0, 0, 0.6), (1, 0, 0.5)]
    assert decides(tree, 0.956) == 0  # 0.956^4 = 0.835 >= 0.8333
    assert decides(tree, 0.955) != 0  # 0.955^4 = 0.832


class Said:
    """A prior that draws what it is told: GEN's draw, then CONT's; a third draw would be an error."""

    def __init__(self, gen, cont):
        self._draws = iter((gen, cont))

    def draw(self, rng, n, total, squares):
        return next(self._draws)


def goes_deeper(gen, cont, decay, children=2):
    """Whether a root that has so many children goes deeper, given what its two arms draw."""
    algorithm = grow([(None, 0, 0.5)] * children, agents=("a",), depth_decay=decay)
    algorithm._settings = algorithm._settings.model_copy(update={"prior": Said(gen, cont)})
    [arms] = algorithm._root.arms
    return algorithm._goes_on(algorithm._root, arms, np.random.default_rng(0))


@given(
    gen=st.floats(-3, 3), cont=st.floats(-3, 3), lower=st.floats(0, 1),
    decay=st.floats(0.01, 1), other=st.floats(0.01, 1), children=st.integers(1, 30),
)  # fmt: skip
def test_depth_guidance_never_turns_from_cont_to_gen(gen, cont, lower, decay, other, children):
    """A stronger decay, one more child or a lower draw of GEN: who went deeper before still does."""
    if cont > gen or goes_deeper(gen, cont, max(decay, other), children):
        assert goes_deeper(gen, cont, min(decay, other), children)
        assert goes_deeper(gen, cont, min(decay, other), children + 1)
        assert goes_deeper(gen - lower, cont, min(decay, other), children)
