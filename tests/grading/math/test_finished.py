import time

import pytest

from mars_env.grading.math.finished import finished
from mars_env.grading.math.grader import MathGrader
from mars_env.grading.math.nodes import Node, num
from mars_env.grading.math.parser import read_answer
from mars_env.types import Problem, Verdict


@pytest.fixture(scope="module")
def grader():
    own = MathGrader(workers=1)
    yield own
    own.close()


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("855", "882-27"),
        ("2", r"2^{100} \bmod 7"),
        ("25", "50:2+0"),
        (r"\frac{5}{6}", r"\frac12+\frac13"),
        (r"\frac{1}{4}", r"\left\lfloor\frac{5}{2}\right\rfloor\cdot\frac18"),
        (r"\sqrt{5}", r"\sqrt{3^2-2^2}"),
        (r"2\sqrt{2}", r"\sqrt{2}+\sqrt{2}"),
        (r"\pi", r"\frac{\pi}{2}+\frac{\pi}{2}"),
        (r"8\sqrt{3}", r"\log_2 256 \cdot \sqrt{3}"),
        (r"2^{10}", "2^9+2^9"),
        ("8 ft", "5 ft + 3 ft"),
        ("11", "1011_2"),
        ("x=5", "2x=10"),
        ("x=5", "10=2x"),
        ("5", "5+0x"),
        ("x<3", "2x+1<7"),
        ("x<3", "x<5, x<3"),
        (r"[2,\infty)", r"f(x) \ge \sqrt{4}"),
        (r"(3, \sqrt{2})", r"(\sqrt{9}, \sqrt{2})"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\1+1\end{pmatrix}"),
        (r"n(n+1)", r"\sum_{k=1}^{n} 2k"),
        ("1+2+3", r"\binom{4}{2}"),
    ],
)
def test_less_finished_than_its_reference(reference, answer):
    assert not finished(read_answer(reference), read_answer(answer))


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("855", "x = 882-27 = 855"),
        ("855", "855 = 882-27"),
        ("30", "P = 2a+2b = 30"),
        ("5/2", r"2\frac12"),
        ("0.001", "10^{-3}"),
        ("2.3 km", r"2 \text{ km} + 300 \text{ m}"),
        (r"2 \text{ m}", "2m"),
        ("90^\\circ", r"\frac{\pi}{2}"),
        ("3.33", r"x = \sqrt{11} \approx 3.33"),
        (r"\frac{\pi^2}{4}", r"\left(\frac{\pi}{2}\right)^2"),
        (r"e^{i\pi/3}", r"\cos\frac{\pi}{3}+i\sin\frac{\pi}{3}"),
        (r"\sqrt{2}+\sqrt{6}", r"2\sqrt{2+\sqrt{3}}"),
        (r"\frac{10!}{5!5!}", r"\binom{10}{5}"),
        (r"1-\frac{1}{2^{10}}", r"\frac{2^{10}-1}{2^{10}}"),
        (r"3 \pmod 7", r"x \equiv 3 \pmod 7"),
        (r"x \le -2 \text{ or } x \ge 2", r"|x| \ge 2"),
        (r"\mathbb{R}\setminus\{1\}", r"\mathbb{R}-\{1\}"),
        ("m+n=5", "2m+2n=10"),
        ("y=2x+1", "2x-y=-1"),
        (r"\text{(B)}", "(B)"),
        (r"A=\frac12\begin{pmatrix}1\\3\end{pmatrix}", r"\frac12\begin{pmatrix}1\\3\end{pmatrix}"),
    ],
)
def test_as_finished_as_its_reference(reference, answer):
    assert finished(read_answer(reference), read_answer(answer))


@pytest.mark.parametrize(
    "answer", [r"\frac{50}{2}", "50:2", r"2.5\cdot 10^1", r"\text{The answer is } \frac{50}{2}"]
)
def test_a_problem_may_want_an_integer_as_one(grader, answer):
    for integer, verdict in ((True, Verdict.WRONG), (False, Verdict.CORRECT)):
        problem = Problem("p", "?", "25", metadata={"integer": integer})
        assert grader.grade_sync(problem, rf"\boxed{{{answer}}}").verdict is verdict


def test_one_of_two_forms_must_be_finished(grader):
    problem = Problem("p", "?", "855")
    assert grader.grade_sync(problem, r"\boxed{855 (= 882-27)}").verdict is Verdict.CORRECT
    for answer in ("855 (= 882-26)", "881-26 (= 882-27)"):
        assert grader.grade_sync(problem, rf"\boxed{{{answer}}}").verdict is Verdict.WRONG


def test_a_field_integer_that_is_no_bool_is_unfit(grader):
    problem = Problem("p", "?", "25", metadata={"integer": "yes"})
    assert grader.check_reference(problem)
    assert grader.grade_sync(problem, r"\boxed{25}").verdict is Verdict.UNKNOWN


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
