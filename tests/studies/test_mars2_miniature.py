"""The miniature of MARS2: its language, its grader, its warm start and its experiment."""

import asyncio
import random
from operator import attrgetter

import pytest
from sandboxes import need_a_sandbox

from mars_env.grading.code.grader import CodeGrader
from mars_env.types import Verdict
from studies.common.nibbles import nibbles_problems
from studies.mars2 import protocol
from studies.mars2.grader import NibbleGrader
from studies.mars2.protocol import Pair


def pairs():
    return nibbles_problems(level=(1, 3), seed=5, split="test")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "def f(x, r):\n    return 7",
        "def f(x, r):\n    u = v = x\n    u = eval('1')\n    return (u, v)[r]\n",
        "import os\ndef f(x, r):\n    u = v = x\n    return (u, v)[r]\n",
        "def f(x, r):\n    u = v = x\n" + "    u = u // 2\n" * 200 + "    return (u, v)[r]\n",
    ],
)
def test_what_is_not_in_the_language_is_wrong_and_never_run(text):
    assert protocol.read_program(text) is None
    grade = asyncio.run(NibbleGrader().grade(pairs()[0], text))
    assert grade.score == 0.0 and grade.feedback


def spoilt(problem, rng):
    """Programs for a problem: right, wrong in either register or both, right on what is shown alone."""
    pair = protocol.read_program(problem.reference["solutions"][0])
    u, v = (tuple(rng.choices(protocol.OPERATIONS, k=2)) for _ in range(2))
    return [pair, Pair(u, pair.v), Pair(pair.u, v), Pair(u, v), Pair((), pair.v)]


@pytest.mark.parametrize("options", [{}, {"tests": "public"}, {"score": "fraction"}])
def test_it_grades_as_the_sandbox_does(options):
    need_a_sandbox()
    reference, fast, rng = CodeGrader(**options), NibbleGrader(**options), random.Random(0)
    seen, stated = set(), attrgetter("verdict", "score", "reason", "feedback")

    async def both():
        for problem in pairs()[:3]:
            for pair in spoilt(problem, rng):
                wanted = await reference.grade(problem, pair.program)
                found = await fast.grade(problem, pair.program)
                seen.add(wanted.verdict)
                assert stated(found) == stated(wanted)
        await reference.aclose()

    asyncio.run(both())
    assert seen == {Verdict.CORRECT, Verdict.WRONG}
