"""The grammar of answers, as whole completions: what is read, and its hostile twins that stay wrong."""

from collections import Counter
from pathlib import Path

import pytest
from rows import read_rows

from mars_env.types import Problem, Verdict

ROWS = read_rows(Path(__file__).with_name("answers.jsonl"))
PAIRS = Path(__file__).with_name("pairs.txt")


@pytest.mark.parametrize("part", range(8))
def test_rows_come_out_as_they_say(grader, part):
    missed = []
    for row in ROWS[part::8]:
        grade = grader.grade_sync(Problem("p", row.get("problem", "?"), row["reference"]), row["text"])
        if str(grade.verdict) != row["verdict"]:
            missed.append((row, str(grade)))
    assert missed == []


def test_answers_in_another_form_and_near_misses(grader):
    """100 right pairs and 100 wrong ones, written before the grader had read any of them."""
    rows = [line.split(" ;; ") for line in PAIRS.read_text().splitlines() if not line.startswith("#")]
    assert Counter(right == "-" for right, *_ in rows) == {True: 100, False: 100}
    for right, reference, answer, *statement in rows:
        problem = Problem("p", *(statement or ["?"]), reference)
        verdict = grader.grade_sync(problem, rf"So it is $\boxed{{{answer}}}$.").verdict
        assert verdict is (Verdict.CORRECT if right == "+" else Verdict.WRONG), (reference, answer)


@pytest.mark.parametrize(
    ("reference", "answer", "ordered", "right"),
    [
        ("10, 4, -2", "4, 10, -2", None, True),
        ("10, 4, -2", "4, 10, -2", True, False),
        ("10, 4, -2", "10, 4, -2", True, True),
        ("10, 4, -2", "(10, 4, -2)", True, True),
        ("10, 4, -2", r"\{10, 4, -2\}", True, False),
        ("10 and 4", "4 and 10", True, False),
        ("(10, 4, -2)", "(4, 10, -2)", None, False),
        ("(10, 4, -2)", "(4, 10, -2)", False, True),
        ("(10, 4, -2)", "4, 10, -2", False, True),
        ("(10, 4, -2)", "4, 10", False, False),
        ("x = 1, y = 2", "y = 2, x = 1", True, True),
    ],
)
def test_a_problem_may_say_whether_order_counts(grader, reference, answer, ordered, right):
    metadata = {} if ordered is None else {"ordered": ordered}
    grade = grader.grade_sync(Problem("p", "?", reference, metadata=metadata), rf"\boxed{{{answer}}}")
    assert grade.verdict is (Verdict.CORRECT if right else Verdict.WRONG)
