"""Tests in one sandbox, the program in another: who is to blame when time runs out."""

import pytest
import sandboxes

from mars_env.grading.code import asserts
from mars_env.grading.code.grader import CodeGrader
from mars_env.sandbox import Limits
from mars_env.types import Verdict

SLOW = "import time\nassert f(1) == 1\ntime.sleep(1.5)\nassert f(2) == 2"
"""Tests that make no progress for longer than the program's idle time."""
BRIEF = {"cpu_seconds": 0.5, "idle_seconds": 1.0}


def judged(code, program, **limits):
    sandboxes.need_a_sandbox()
    grader = CodeGrader(limits=Limits(**limits))
    return sandboxes.judge(grader, {"entry_point": "f", "tests": [code]}, program)


@pytest.fixture
def runs(monkeypatch):
    """What each run may sleep beyond its idle time."""
    monkeypatch.setattr(asserts, "_SPARE", 0.3)
    converse, seen = asserts._converse, []

    async def watched(lease, task, program, spare):
        seen.append(spare)
        return await converse(lease, task, program, spare)

    monkeypatch.setattr(asserts, "_converse", watched)
    return seen


def test_tests_that_stall_make_a_program_neither_wrong_nor_right(runs):
    grade = judged(SLOW, "def f(x): return x", **BRIEF)
    assert grade.verdict is Verdict.CORRECT, grade
    assert runs in ([0.3], [0.3, 1.3], [0.3, 1.3, float("inf")])  # a busy machine's time is not the program's
    grade = judged(SLOW, "def f(x): return 1", **BRIEF)
    assert (grade.verdict, grade.reason) == (Verdict.WRONG, "wrong answer")


def test_tests_that_stall_to_the_end_of_all_time_are_unknown(runs):
    grade = judged(SLOW, "def f(x): return x", **BRIEF, wall_seconds=1.0)
    assert (grade.verdict, grade.reason) == (Verdict.UNKNOWN, "the tests made no progress")
    assert runs == [0.3, 1.3, float("inf")]


@pytest.mark.parametrize("program", [
    "import time\ndef f(x):\n    if x == 2: time.sleep(60)\n    return x",
    "import time\ndef f(x):\n    time.sleep(1.1)\n    return x",
    "import time\ntime.sleep(1.1)\ndef f(x): return x",
    "import os, time\ndef f(x):\n    os.close(4)\n    time.sleep(60)",
    "import os, threading, time\ndef f(x):\n"
    "    threading.Timer(0.2, os.close, [4]).start()\n    return x",
    "import os, threading\ndef f(x):\n    threading.Timer(0.2, os._exit, [0]).start()\n    return x",
])  # fmt: skip
def test_a_program_that_sleeps_or_leaves_is_wrong(program):
    grade = judged(SLOW, program, **BRIEF)
    assert grade.verdict is Verdict.WRONG, grade


@pytest.mark.parametrize("where", ["", "def f(x):\n    "])
def test_a_program_that_kills_itself_runs_once(runs, where):
    grade = judged("assert f(1) == 1", f"import os, time\n{where}time.sleep(0.4); os.kill(os.getpid(), 9)")
    assert grade.verdict is Verdict.WRONG and len(runs) == 1, grade
