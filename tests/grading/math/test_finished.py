import time

import pytest

from mars_env.grading.math.finished import finished
from mars_env.grading.math.nodes import Node, num
from mars_env.grading.math.parser import read_answer
from mars_env.types import Problem, Verdict


@pytest.mark.parametrize(
    "answer", [r"\frac{50}{2}", "50:2", r"2.5\cdot 10^1", r"\text{The answer is } \frac{50}{2}"]
)
def test_a_problem_may_want_an_integer_as_one(grader, answer):
    for integer, verdict in ((True, Verdict.WRONG), (False, Verdict.CORRECT)):
        problem = Problem("p", "?", "25", metadata={"integer": integer})
        assert grader.grade_sync(problem, rf"\boxed{{{answer}}}").verdict is verdict


def test_an_unfinished_answer_says_so(grader):
    for reference, answer in (("5", "2+3"), (r"\frac{5}{6}", r"\frac12+\frac13")):
        grade = grader.grade_sync(Problem("p", "?", reference), rf"\boxed{{{answer}}}")
        assert grade.verdict is Verdict.WRONG and "differs" not in grade.reason


@pytest.mark.parametrize("kind", ["pow", "mul"])
def test_a_deep_answer_takes_linear_time(kind):
    node = read_answer(r"\sqrt{2}")
    for _ in range(60):
        node = Node(kind, (Node("call", (node, num(1)), "root"), num(1)))
    started = time.process_time()
    finished(read_answer(r"\sqrt{2}"), node)
    assert time.process_time() - started < 5
