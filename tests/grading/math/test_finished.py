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


LESS = r"""
25 | 50:2+0
\frac{1}{4} | \left\lfloor\frac{5}{2}\right\rfloor\cdot\frac18
\sqrt{5} | \sqrt{3^2-2^2}
\pi | \frac{\pi}{2}+\frac{\pi}{2}
8\sqrt{3} | \log_2 256 \cdot \sqrt{3}
2^{10} | 2^9+2^9
8 ft | 5 ft + 3 ft
x=5 | 10=2x
5 | 5+0x
x<3 | x<5, x<3
[2,\infty) | f(x) \ge \sqrt{4}
(3, \sqrt{2}) | (\sqrt{9}, \sqrt{2})
\begin{pmatrix}1\\2\end{pmatrix} | \begin{pmatrix}1\\1+1\end{pmatrix}
n(n+1) | \sum_{k=1}^{n} 2k
1+2+3 | \binom{4}{2}
"""
AS_FINISHED = r"""
855 | 855 = 882-27
30 | P = 2a+2b = 30
0.001 | 10^{-3}
2.3 km | 2 \text{ km} + 300 \text{ m}
90^\circ | \frac{\pi}{2}
3.33 | x = \sqrt{11} \approx 3.33
\frac{\pi^2}{4} | \left(\frac{\pi}{2}\right)^2
e^{i\pi/3} | \cos\frac{\pi}{3}+i\sin\frac{\pi}{3}
\sqrt{2}+\sqrt{6} | 2\sqrt{2+\sqrt{3}}
\frac{10!}{5!5!} | \binom{10}{5}
3 \pmod 7 | x \equiv 3 \pmod 7
x \le -2 \text{ or } x \ge 2 | |x| \ge 2
m+n=5 | 2m+2n=10
\begin{pmatrix}2\\6\end{pmatrix} | 2\begin{pmatrix}1\\3\end{pmatrix} = \begin{pmatrix}2\\6\end{pmatrix}
A=\frac12\begin{pmatrix}1\\3\end{pmatrix} | \frac12\begin{pmatrix}1\\3\end{pmatrix}
"""


@pytest.mark.parametrize("table", [LESS, AS_FINISHED])
def test_as_finished_as_its_reference(table):
    rows = [line.split(" | ", 1) for line in table.strip().splitlines()]
    done = [line for line in rows if finished(*map(read_answer, line))]
    assert done == ([] if table is LESS else rows)


@pytest.mark.parametrize(
    "answer", [r"\frac{50}{2}", "50:2", r"2.5\cdot 10^1", r"\text{The answer is } \frac{50}{2}"]
)
def test_a_problem_may_want_an_integer_as_one(grader, answer):
    for integer, verdict in ((True, Verdict.WRONG), (False, Verdict.CORRECT)):
        problem = Problem("p", "?", "25", metadata={"integer": integer})
        assert grader.grade_sync(problem, rf"\boxed{{{answer}}}").verdict is verdict


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
