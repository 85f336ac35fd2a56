import math

import pytest

from mars_env.errors import ConfigError
from mars_env.search import (
    ALGORITHMS,
    BestOfN,
    Search,
    SearchSettings,
    make_algorithm,
)
from mars_env.testing.search_suite import check_search

AGENTS = ("coder_0", "coder_1")


def make(seed=0, agents=AGENTS, **settings):
    return Search(SearchSettings(**settings), agents, seed)


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
    for agents in ([], ["coder_0", "coder_0"]):
        with pytest.raises(ConfigError):
            make(agents=agents)
    search.tell(1, 0.5)  # waits for node 0
    for node in (5, -1, 1):
        with pytest.raises(ConfigError):
            search.tell(node, 0.5)
    search.tell(0, 0.5)
    with pytest.raises(ConfigError):
        search.tell(0, 0.5)


def test_own_algorithms_go_by_module_and_name(tmp_path, monkeypatch):
    (tmp_path / "my_search.py").write_text("from mars_env.search import BestOfN\nclass Mine(BestOfN): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    search = Search(SearchSettings(algorithm="my_search:Mine"), ("a",), seed=0)
    assert isinstance(search._algorithm, BestOfN)
    assert [ask.agent for ask in search.ask(1)] == ["a"]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mcts", {}),
        ("uct", {"sample": 1}),
        ("ab-mcts-a", {"prior": {"kind": "gaussian", "m": float("nan")}}),
        ("no_such_module:Mine", {}),
        ("mars_env.search:Nothing", {}),
        ("json:JSONDecoder", {}),
    ],
)
def test_mistakes_are_named(name, options):
    with pytest.raises(ConfigError):
        make_algorithm(name, options, ("a",), 0)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
@pytest.mark.parametrize("stop_at", [1.0, None])
@pytest.mark.parametrize("schedule", [{}, {"wave": 5}, {"as_completed": True}], ids=str)
def test_built_in_algorithms_keep_the_contract(algorithm, stop_at, schedule):
    check_search(SearchSettings(algorithm=algorithm, calls=40, stop_at=stop_at, **schedule))


@pytest.mark.parametrize(
    "options",
    [{"prior": {"kind": "gaussian"}}, {"choice": "ucb"}, {"choice": "stack", "depth_decay": 0.98}],
    ids=str,
)
def test_forms_of_ab_mcts_keep_the_contract(options):
    check_search(SearchSettings(calls=40, stop_at=None, options=options), agents=("a_0", "b_0", "c_0"))
