from mars_env.search import Search, SearchSettings


def make(algorithm, calls, **options):
    settings = SearchSettings(algorithm=algorithm, calls=calls, options=options, stop_at=None)
    return Search(settings, ("a", "b"), seed=0)


def play(search, k=1, scores=None):
    """Who was asked for what, wave by wave; nodes have score 0 where nothing else is given."""
    waves = []
    while asks := search.ask(k):
        waves.append([(ask.parent, ask.agent) for ask in asks])
        for ask in asks:
            search.tell(ask.id, (scores or {}).get(ask.id, 0.0))
    return waves


def test_best_of_n_is_n_fresh_starts_by_turns():
    assert play(make("best-of-n", 5), k=4) == [
        [(None, "a"), (None, "b"), (None, "a"), (None, "b")],
        [(None, "a")],
    ]


def test_refinement_is_a_chain_by_turns():
    assert play(make("refinement", 4), k=4) == [[(None, "a")], [(0, "b")], [(1, "a")], [(2, "b")]]


def test_a_lost_refinement_is_tried_again_by_the_next_agent():
    assert play(make("refinement", 4), scores={1: None}) == [
        [(None, "a")],
        [(0, "b")],
        [(0, "a")],
        [(2, "b")],
    ]


def parents(scores, samples, keep, calls):
    """The parents of a search by tree of thoughts, wave by wave."""
    search = make("tree-of-thoughts", calls, samples=samples, keep=keep)
    return [[parent for parent, _ in wave] for wave in play(search, 9, scores)]


def test_the_best_thoughts_of_each_level_get_children():
    scores = {0: 0.2, 1: 0.5, 2: 0.5, 3: 0.1, 5: 0.9, 8: 0.4}
    #    level 1       level 2: under 1 and 2   level 3: under 5 and 8, cut by the budget
    assert parents(scores, 4, 2, calls=12) == [[None] * 4, [1] * 4 + [2] * 4]
    assert parents(scores, 4, 2, calls=16)[2] == [5] * 4


def test_a_level_of_thoughts_does_without_what_is_lost_and_is_tried_again_if_all_is():
    assert parents({0: None, 1: 0.3}, 2, 2, calls=4) == [[None, None], [1, 1]]
    assert parents({0: None, 1: None, 2: 0.5}, 2, 1, calls=6) == [[None, None], [None, None], [2, 2]]
