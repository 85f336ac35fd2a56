import random

import numpy as np
import pytest
from made_by_make import needed

from mars_env.search import Search, SearchSettings
from mars_env.testing.search_suite import check_search

AGENTS = ("a_0", "b_0")
ALGORITHMS = [
    "ABMCTSA",
    "StandardMCTS",
    "TreeOfThoughtsBFSAlgo",
    "algos.best_first_search.BestFirstSearchAlgo",
    "algos.multi_armed_bandit_ucb.MultiArmedBanditUCBAlgo",
]


@pytest.fixture
def treequest():
    return needed("treequest", "treequest")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_its_algorithms_keep_our_contract(treequest, name):
    for schedule in ({}, {"as_completed": True}):
        check_search(
            SearchSettings(algorithm=f"treequest:{name}", calls=20, stop_at=None, **schedule),
            agents=AGENTS,
            searches=3,
        )


def test_one_at_a_time_it_grows_its_own_tree(treequest):
    """Ours is told what its own loop is told: the trees are one."""
    settings = SearchSettings(algorithm="treequest:StandardMCTS", calls=25, stop_at=None)
    search = Search(settings, AGENTS, seed=0)
    algorithm = treequest.StandardMCTS()
    state = algorithm.init_tree()
    for id in range(25):
        [ask] = search.ask(1)
        state, trial = algorithm.ask(state, list(AGENTS))
        assert (ask.parent, ask.agent) == (
            None if trial.node_to_expand < 0 else trial.node_to_expand,
            trial.action,
        )
        search.tell(ask.id, id % 7 / 7)
        algorithm.tell(state, trial.trial_id, ("", id % 7 / 7))


def global_state():
    return np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002 (TreeQuest draws from it)


def test_the_global_generators_are_put_back(treequest):
    np.random.seed(7)  # noqa: NPY002 (TreeQuest draws from it)
    random.seed(7)
    before = global_state()
    search = Search(SearchSettings(algorithm="treequest:ABMCTSA", calls=5), AGENTS, seed=0)
    while asks := search.ask(1):
        search.tell(asks[0].id, 0.5)
    assert global_state() == before
