"""The contract suite for search algorithms; run it on your own."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mars_env.search import Search, SearchSettings, make_algorithm
from mars_env.seeds import derive_seed

SCORES = (0.0, 0.25, 0.5, 0.75, 1.0)


def check_search(
    settings: SearchSettings,
    *,
    agents: Sequence[str] = ("coder_0", "coder_1"),
    searches: int = 5,
    seed: int = 0,
) -> None:
    """Play random searches and check what every grower relies on.

    Orders are well formed and name known nodes. `choose` changes nothing. Every search ends in its budget.
    The same seed gives the same tree, whatever the number of workers and the order of scores (in waves).

    Example:
        >>> check_search(SearchSettings(algorithm="uct", calls=12))
    """
    for number in range(searches):
        search_seed = derive_seed(seed, number)
        _check_choose(settings, agents, search_seed)
        _check_orders(_play(settings, agents, search_seed, workers=3), settings, agents)
        waves = settings.model_copy(update={"wave": settings.wave or 4, "as_completed": False})
        once = _play(waves, agents, search_seed, workers=4)
        again = _play(waves, agents, search_seed, workers=4)
        assert _tree(once) == _tree(again), "the same seed gives a different tree"
        shuffled = _play(waves, agents, search_seed, workers=2, shuffle=True)
        assert _tree(once) == _tree(shuffled), "the tree depends on the workers or on the order of the scores"


def _play(
    settings: SearchSettings, agents: Sequence[str], seed: int, *, workers: int, shuffle: bool = False
) -> Search:
    """A whole search; a node's score depends only on the seed and its id, and every fifth is lost."""
    search = Search(settings, agents, seed)
    rng = np.random.default_rng(derive_seed(seed, "play"))
    running: list[int] = []
    for _ in range(10 * settings.calls + 10):
        running += [ask.id for ask in search.ask(workers - len(running))] if len(running) < workers else []
        if not running:
            assert search.done, "ask() returns nothing and nothing is in progress, but the search is not done"
            return search
        id = running.pop(int(rng.integers(len(running))) if shuffle else 0)
        node_rng = np.random.default_rng(derive_seed(seed, id))
        lost = node_rng.random() < 0.2
        search.tell(id, None if lost else float(node_rng.choice(SCORES)), tokens=id)
    raise AssertionError("the search does not end within its budget")


def _check_orders(search: Search, settings: SearchSettings, agents: Sequence[str]) -> None:
    assert len(search.asks) <= settings.calls, f"{len(search.asks)} asks, but the budget is {settings.calls}"
    for id, ask in enumerate(search.asks):
        assert ask.id == id, f"ids must count up from 0, got {ask.id} after {id} asks"
        assert ask.agent in agents, f"node {id} names {ask.agent!r}, which is not one of the agents"
        if ask.parent is not None:
            assert 0 <= ask.parent < id, f"node {id} has the parent {ask.parent}, which does not exist yet"
            assert search.scores[ask.parent] is not None, f"node {id} refines {ask.parent}, which was lost"
    assert set(search.scores) == set(range(len(search.asks))), "some nodes never got a score"


def _check_choose(settings: SearchSettings, agents: Sequence[str], seed: int) -> None:
    algorithm = make_algorithm(settings.algorithm, dict(settings.options), agents, seed)
    first = algorithm.choose(np.random.default_rng(seed))
    assert first is not None, "an algorithm must be able to choose before it has any scores"
    assert first[0] is None, f"the first node must be a child of the root, not of {first[0]}"
    assert first == algorithm.choose(np.random.default_rng(seed)), "choose() changes the algorithm's state"


def _tree(search: Search) -> list[Any]:
    return [(ask.parent, ask.agent, search.scores[ask.id]) for ask in search.asks]
