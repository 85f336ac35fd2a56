import pytest

from mars_env.errors import ConfigError
from mars_env.search import (
    BestOfN,
    Search,
    SearchSettings,
    make_algorithm,
)


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
