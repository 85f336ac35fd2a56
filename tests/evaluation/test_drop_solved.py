"""Which problems a run found easy."""

from small_runs import graded_tree as tree

from mars_env.evaluation.problems import drop_solved
from mars_env.problems import ProblemSet
from mars_env.types import Grade, Problem


def test_half_of_eight_is_dropped_three_is_kept_and_unknown_is_no_try():
    right, wrong, unknown = Grade.correct(), Grade.wrong("no"), Grade.unknown("lost")
    problems = ProblemSet(
        "mine", [Problem(id, "?", "1") for id in ("four", "three", "none", "unknown", "new")]
    )
    four, three, none, lost, _ = problems
    trees = [
        tree(four, 0, right, right, right, right),
        tree(four, 1, wrong, wrong, wrong, wrong),
        tree(three, 0, right, right, right, wrong, wrong, wrong, wrong, unknown, unknown),
        tree(none, 0, *[wrong] * 8),
        tree(lost, 0, unknown, None),
    ]
    assert [p.id for p in drop_solved(problems, trees)] == ["three", "none"]
