import pytest

from mars_env.search import ALGORITHMS, BestOfN, SearchSettings
from mars_env.testing.search_suite import check_search


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


class Forgetful(BestOfN):
    """Changes its state when it chooses."""

    def choose(self, rng):
        self._asked += 1
        return super().choose(rng)


class Inventive(BestOfN):
    """Names a node that never was."""

    def choose(self, rng):
        parent, agent = super().choose(rng)
        return (self._asked + 1 if self._asked > 3 else parent), agent


class Dreamer(BestOfN):
    """Its choices do not come from the generator that it is given."""

    count = 0

    def choose(self, rng):
        type(self).count += 1
        return None, self._agents[(type(self).count // 7) % 2]


@pytest.mark.parametrize("broken", [Forgetful, Inventive, Dreamer])
def test_the_contract_finds_what_is_broken(broken, monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "broken", broken)
    with pytest.raises(AssertionError):
        check_search(SearchSettings(algorithm="broken", calls=20, stop_at=None))
