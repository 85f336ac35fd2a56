"""Assert-style suites on a sandbox without channels: the same verdicts, by playing again."""

import asyncio

import pytest
import sandboxes

from mars_env.grading.code import asserts
from mars_env.grading.code.grader import CodeGrader
from mars_env.types import Verdict


@pytest.fixture(scope="module")
def grader():
    sandboxes.need("bubblewrap")
    grader = CodeGrader(backend=sandboxes.Silent())
    yield grader
    asyncio.run(grader.aclose())


def judge(grader, tests, program, **more):
    return sandboxes.judge(grader, {"entry_point": "f", "tests": tests}, program, **more)


TWO = ["assert f(2) == 4", "assert f(3) == 6"]
NO_VALUE = "test 1 of 2: it ended, or sent something that is not a value"
FORGED = """
import os
from mars_env.grading.code import program, values
def f(x):
    program.send_data(values.encode(["nonsense" + chr(1000)] * 9)); os._exit(0)
"""


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("def f(x): return 2 * x", ""),
        ("def f(x): return x + 2", "test 2 of 2: wrong answer"),
        ("def f(x): return 1 / 0", "test 1 of 2: it raised ZeroDivisionError"),
        ("1 / 0", "test 1 of 2: it raised ZeroDivisionError"),
        ("def f(x): raise SystemExit", "test 1 of 2: it raised SystemExit"),
        ("import os\ndef f(x): os._exit(0)", NO_VALUE),
        (FORGED, NO_VALUE),
        ("class E:\n    def __eq__(s, o): return True\ndef f(x): return E()", "test 1 of 2: wrong answer"),
        (
            "def f(x):\n    while x != 3: return 2 * x\n    while True: pass",
            "test 2 of 2: it exceeded the CPU time limit",
        ),
    ],
)
def test_verdicts(grader, program, reason):
    found = judge(grader, TWO, program, time_limit=0.5)
    assert (found.verdict, found.reason) == (Verdict.WRONG if reason else Verdict.CORRECT, reason)


def test_tests_that_cannot_be_played_again_are_unknown(grader, monkeypatch):
    from_the_system = ["import os\nassert f(os.urandom(4)[0]) > 0", "assert f(1)"]
    right = "def f(x): return 2 * x + 1"
    assert judge(grader, from_the_system, right).verdict is Verdict.WRONG  # a program could cause the same
    found = judge(grader, from_the_system, right, solution=right)
    assert found.verdict is Verdict.UNKNOWN and "do not make the same requests" in found.reason
    monkeypatch.setattr(asserts, "MAX_REQUESTS", 5)
    right = "def f(x): return x"
    found = judge(grader, ["for i in range(9): assert f(i) == i"], right, solution=right)
    assert found.verdict is Verdict.UNKNOWN and "requests to the program" in found.reason


def test_tests_at_random_are_played(grader):
    at_random = ["import random\nx = random.random()\nassert f(x) == 2 * x", "assert f(1) == 2"]
    assert judge(grader, at_random, "def f(x): return 2 * x").verdict is Verdict.CORRECT


ENDLESS = "def f(n):\n    while True: yield 1"
SHORT = "def f(n): return iter([1])"


@pytest.mark.parametrize("solution", [{}, {"solution": SHORT}], ids=["alone", "with a solution"])
def test_an_endless_conversation_is_the_programs_doing(grader, monkeypatch, solution):
    monkeypatch.setattr(asserts, "MAX_REQUESTS", 5)
    tests = ["assert list(f(3)) == [1]"]
    assert judge(grader, tests, SHORT, **solution).verdict is Verdict.CORRECT
    found = judge(grader, tests, ENDLESS, **solution)
    assert found.verdict is Verdict.WRONG and "requests to the program" in found.reason


def test_the_order_of_a_set_does_not_make_a_suite_unlike_itself(grader):
    """Hashes of None (before Python 3.12), of NaN and of objects follow their addresses."""
    program = """
class Box: pass
def f(x): return {None, float("nan"), 1, "a", "b", Box(), Box()}
def g(x): return 1
"""
    found = judge(grader, ["for each in f(1): assert g(each) == 1", "assert f(1) == 1"], program)
    assert found.verdict is Verdict.WRONG and found.reason in (
        "test 2 of 2: wrong answer",
        "test 1 of 2: the tests do not make the same requests in each run",
    )
