import pytest

from mars_env.search import Search, SearchSettings


def play(algorithm, calls, k=1, scores=None, **options):
    """Who was asked for what, wave by wave; nodes have score 0 where nothing else is given."""
    settings = SearchSettings(algorithm=algorithm, calls=calls, options=options, stop_at=None)
    search, waves = Search(settings, ("a", "b"), seed=0), []
    while asks := search.ask(k):
        waves.append([(ask.parent, ask.agent) for ask in asks])
        for ask in asks:
            search.tell(ask.id, (scores or {}).get(ask.id, 0.0))
    return waves


FRESH = [(None, "a"), (None, "b"), (None, "a"), (None, "b")]


@pytest.mark.parametrize(
    ("algorithm", "calls", "k", "scores", "waves"),
    [
        ("best-of-n", 5, 4, {}, [FRESH, [(None, "a")]]),
        ("refinement", 4, 4, {}, [[(None, "a")], [(0, "b")], [(1, "a")], [(2, "b")]]),
        # what was lost is tried again by the next agent
        ("refinement", 4, 1, {1: None}, [[(None, "a")], [(0, "b")], [(0, "a")], [(2, "b")]]),
    ],
)
def test_fresh_starts_and_chains_are_by_turns(algorithm, calls, k, scores, waves):
    assert play(algorithm, calls, k, scores) == waves


def parents(scores, samples, keep, calls):
    """The parents of a search by tree of thoughts, wave by wave."""
    waves = play("tree-of-thoughts", calls, 9, scores, samples=samples, keep=keep)
    return [[parent for parent, _ in wave] for wave in waves]


def test_the_best_thoughts_of_each_level_get_children():
    scores = {0: 0.2, 1: 0.5, 2: 0.5, 3: 0.1, 5: 0.9, 8: 0.4}
    #    level 1       level 2: under 1 and 2   level 3: under 5 and 8, cut by the budget
    assert parents(scores, 4, 2, calls=12) == [[None] * 4, [1] * 4 + [2] * 4]
    assert parents(scores, 4, 2, calls=16)[2] == [5] * 4


def test_a_level_of_thoughts_does_without_what_is_lost_and_is_tried_again_if_all_is():
    assert parents({0: None, 1: 0.3}, 2, 2, calls=4) == [[None, None], [1, 1]]
    assert parents({0: None, 1: None, 2: 0.5}, 2, 1, calls=6) == [[None, None], [None, None], [2, 2]]
