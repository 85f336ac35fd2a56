import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.grading import check_reference, grade
from mars_env.grading.math.checks import read_numbers
from mars_env.types import Problem

FACTS = {"answer_check": "subset-sum", "numbers": [2, 5, 7, 9, 10, 12, 15], "target": 27}


def problem(reference="12, 15", **metadata):
    return Problem("p", "Which ones?", reference, metadata=FACTS | metadata)


RIGHT = ["12, 15", "15,12", "2, 10, 15", "5 + 7 + 15", "5 + 7 + 15 = 27", r"\{2, 10, 15\}", "$12$ and $15$"]


@pytest.mark.parametrize("answer", [*RIGHT, r"\left\{2,\, 10,\ 15\right\}", r"2, 10, \text{and } 15"])
def test_any_right_answer_is_correct(answer):
    found = grade(problem(), rf"\boxed{{{answer}}}")
    assert found.verdict == "CORRECT" and found.score == 1.0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (r"\boxed{12, 10}", "the numbers add up to 22, not to 27"),
        (r"\boxed{12, 14, 1}", "14 is not among the numbers"),
        (r"\boxed{5, 5, 5, 12}", "5 is used too often"),
        (r"\boxed{27}", "27 is not among the numbers"),
        (r"\boxed{none}", "the answer is not a list of numbers"),
        (r"\boxed{-12, 39}", "the answer is not a list of numbers"),
        (r"\boxed{12, 15, 0}", "0 is not among the numbers"),
        (r"\boxed{" + "12, " * 300 + "15}", "the answer is not a list of numbers"),
        ("I cannot say which ones.", "no answer was found"),
    ],
)
def test_a_wrong_answer_is_wrong_and_the_reason_says_why(text, why):
    found = grade(problem(), text)
    assert found.verdict == "WRONG" and found.reason == why


def test_repeated_numbers_may_be_used_as_often_as_they_are_there():
    twice = problem("6, 6", numbers=[6, 6, 1], target=12)
    assert grade(twice, r"\boxed{6, 6}").verdict == "CORRECT"
    assert grade(twice, r"\boxed{6, 6, 6}").reason == "6 is used too often"


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"answer_check": "sudoku"}, "there is no check 'sudoku'; known: subset-sum"),
        ({"answer_check": ["subset-sum"]}, "there is no check"),
        ({"numbers": "1, 2"}, "needs integers 'numbers' and 'target'"),
        ({"numbers": [1, True]}, "needs integers"),
        ({"target": None}, "needs integers"),
    ],
)
def test_a_malformed_problem_is_unknown_and_refused_when_loaded(facts, why):
    broken = problem(**facts)
    found = grade(broken, r"\boxed{12, 15}")
    assert found.verdict == "UNKNOWN" and why in found.reason
    assert why in check_reference(broken)


def test_a_reference_that_the_check_refuses_is_refused():
    assert check_reference(problem()) is None
    assert check_reference(problem("12, 10")) == (
        "the reference is not a right answer: the numbers add up to 22, not to 27"
    )


@given(st.text(alphabet="0123456789,;+= and{}\\()$.~\n²³١", max_size=60))
def test_any_text_is_read_or_not(text):
    found = read_numbers(text)
    assert found is None or all(0 <= number < 10**6 for number in found)
