import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.errors import ConfigError
from mars_env.search import Search, SearchSettings

AGENTS = ("coder_0", "coder_1")


def make(seed=0, agents=AGENTS, **settings):
    return Search(SearchSettings(**settings), agents, seed)


def score_of(id):
    return (id * 7 % 11) / 20


def test_the_budget_in_tokens_counts_lost_ones_and_ends_between_waves():
    search = make(tokens=1000, wave=4)
    for ask in search.ask(4):
        search.tell(ask.id, 0.0, tokens=240)
    assert search.reason == ""
    wave = search.ask(4)
    search.tell(wave[0].id, None, tokens=40)
    assert (search.reason, search.done, search.tokens) == ("tokens", False, 1000)
    for ask in wave[1:]:
        search.tell(ask.id, 0.0, tokens=1)
    assert (search.done, search.tokens, search.ask(4)) == (True, 1003, [])


def test_early_stop_lets_the_wave_end():
    search = make(wave=3)
    search.ask(1)
    search.tell(0, 1.0)
    assert (search.reason, search.done) == ("solved", False)
    rest = search.ask(5)  # the wave was decided before: the tree must not depend on who asks when
    assert [ask.id for ask in rest] == [1, 2]
    for ask in rest:
        search.tell(ask.id, 0.0)
    assert (search.done, search.ask(3), search.best()) == (True, [], 0)


def test_bad_input_is_refused_with_one_sentence():
    search = make(calls=3)
    search.ask(2)
    for score in (-0.1, 1.1, math.nan, math.inf):
        with pytest.raises(ConfigError):
            search.tell(0, score)
    with pytest.raises(ConfigError):
        search.tell(0, 0.5, tokens=-1)
    with pytest.raises(ConfigError):
        search.ask(0)
    search.tell(1, 0.5)  # waits for node 0
    for node in (5, -1, 1):
        with pytest.raises(ConfigError):
            search.tell(node, 0.5)
    search.tell(0, 0.5)
    with pytest.raises(ConfigError):
        search.tell(0, 0.5)


def stored(search):
    return Search.load(json.loads(json.dumps(search.state_dict())))


@given(st.lists(st.integers(0, 3), min_size=20, max_size=60), st.booleans())
def test_a_search_goes_on_as_if_it_had_never_been_stored(moves, as_completed):
    """Two searches in step, one of which is stored and loaded at every turn."""
    schedule = {"as_completed": True} if as_completed else {"wave": 4}
    one, other = (make(seed=3, calls=25, stop_at=None, **schedule) for _ in range(2))
    running = []
    for move in moves:
        if move == 0 or not running:
            asks = one.ask(2)
            # What a load hands out again is what was under way; then comes what is new.
            handed = other.ask(len(running) + len(asks) or 1)
            assert {ask.id for ask in asks} <= {ask.id for ask in handed}
            running += asks
        else:
            ask = running.pop(move % len(running))
            score = None if ask.id % 5 == 4 else score_of(ask.id)
            one.tell(ask.id, score, tokens=ask.id)
            other.tell(ask.id, score, tokens=ask.id)
        other = stored(other)
    assert other.asks == one.asks
    assert other.scores == one.scores
    assert other.tokens == one.tokens
    assert other.reason == one.reason


@pytest.mark.parametrize(
    "damage", [{"events": [99]}, {"asks": [[None, 7]]}, {"rng": {}}, {"settings": {"x": 1}}]
)
def test_a_damaged_state_is_refused(damage):
    search = make(calls=3)
    search.tell(search.ask(1)[0].id, 0.5)
    with pytest.raises(ConfigError):
        Search.load({**search.state_dict(), **damage})
