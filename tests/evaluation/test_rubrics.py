import pytest
from small_runs import graded_tree

from mars_env.errors import ConfigError
from mars_env.evaluation.rubrics import highest_rewards, judge_agreement, mean_scores, quantile_band
from mars_env.types import Grade, Problem


def tree(name, *grades, **options):
    return graded_tree(Problem(name, "?", None, "open"), 0, *grades, **options)


def voted(**votes):
    return Grade.wrong("", details={"votes": votes})


def test_agreement_is_the_share_of_equal_pairs():
    trees = [
        tree("a", voted(c1=[1.0, 1.0, 0.0], c2=[0.0, 0.0, 0.0])),  # 1 of 3, 3 of 3
        tree("b", voted(c1=[1.0, None, 1.0], c2=[None, None, 1.0])),  # 1 of 1, no pair
    ]
    found = judge_agreement(trees)
    assert found.value == pytest.approx(5 / 7) and found.problems == 2
    assert 0 <= found.low < found.value < found.high <= 1


def test_a_band_of_stored_grades():
    trees = [
        tree("a", Grade.wrong("", score=0.2), Grade.wrong("", score=0.4), Grade.unknown("gone")),
        tree("b", Grade.correct()),
        tree("c", Grade.unknown("gone")),
    ]
    scores = mean_scores(trees)
    assert scores == {"a": pytest.approx(0.3), "b": 1.0}
    assert quantile_band({str(i): i / 10 for i in range(11)}, 0.2, 0.8) == [str(i) for i in range(2, 9)]
    assert quantile_band({}) == []
    with pytest.raises(ConfigError):
        quantile_band(scores, 0.8, 0.2)


def test_turns_of_unknown_reward_are_not_listed():
    grades = [Grade.correct()] * 3
    found = highest_rewards([tree("a", *grades, rewards=(0.1, None, 0.9))], 5)
    assert [turn.id for turn in found] == ["2", "0"]
