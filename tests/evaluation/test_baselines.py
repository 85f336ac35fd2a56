"""Equal-token baselines: the budget is matched from above, and the figures are those counted by hand."""

from dataclasses import replace

import pytest

from mars_env.errors import ConfigError
from mars_env.evaluation.baselines import majority_vote, refinement, token_budget


def answer_of(turn):
    return turn.text


@pytest.fixture
def system(episode):
    """30 tokens a playing on p, 50 on q: a budget of 40."""
    return [
        episode("p", 0, "S- Vw C+", tokens=10),
        episode("q", 0, "S+ Vw C+ Vw C+", tokens=10),
    ]


def pool_of(episode, answers, tokens):
    return [
        episode(p, i, f"S{'+' if a == '7' else '-'}", answers=[a], tokens=tokens)
        for p in ("p", "q")
        for i, a in enumerate(answers)
    ]


def test_the_budget_is_the_mean_over_problems(system, episode):
    assert token_budget(system) == 40
    # More samples of one problem do not give it more weight; a fault has no cost.
    more = [*system, episode("p", 1, "S+ Vc C+", tokens=10), episode("p", 2, "S+", tokens=99, fault="lost")]
    assert token_budget(more) == 40
    for nothing in ({"tokens": 0}, {"fault": "lost"}):
        with pytest.raises(ConfigError):
            token_budget([episode("p", 0, "S+", **nothing)])


def test_majority_of_a_larger_pool_is_the_mean_over_subsets(system, episode):
    # Pairs of (7, 3, 4): {7, 3} and {7, 4} tie, {3, 4} loses.
    baseline = majority_vote(system, pool_of(episode, ["7", "3", "4"], tokens=20), answer_of)
    assert baseline.detail == "2 votes"
    assert baseline.accuracy.value == pytest.approx(1 / 3)
    assert baseline.system_minus.value == pytest.approx(2 / 3)


def test_a_pool_that_is_too_small_is_refused_with_the_number_it_takes(system, episode):
    with pytest.raises(ConfigError):
        majority_vote(system, pool_of(episode, ["7", "7"], tokens=10), answer_of)


def test_other_problems_are_refused_but_more_problems_are_not(system, episode):
    pool = pool_of(episode, ["7"] * 4, tokens=10)
    with pytest.raises(ConfigError):
        majority_vote(system, pool[:4], answer_of)
    with pytest.raises(ConfigError):
        changed = [replace(t, problem=replace(t.problem, reference="8")) for t in pool]
        majority_vote(system, changed, answer_of)
    more = [*pool, episode("r", 0, "S-", tokens=1000)]
    assert majority_vote(system, more, answer_of) == majority_vote(system, pool, answer_of)


def test_refinement_takes_the_least_turns_that_reach_the_budget(system, episode):
    refined = [
        episode("p", 0, "S- S- S+ S- S+", tokens=15),
        episode("q", 0, "S+ S+ S- S+ S+", tokens=[10, 15, 15, 15, 15]),
    ]
    baseline = refinement(system, refined)
    assert baseline.detail == "3 turns"  # 12.5, 27.5, 42.5
    assert baseline.tokens == pytest.approx(42.5)
    assert baseline.accuracy.value == 0.5  # p right at its third turn, q wrong
    assert baseline.system_minus.value == 0.5 and not baseline.short
