import pytest

from mars_env.search import ALGORITHMS, SearchSettings
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
