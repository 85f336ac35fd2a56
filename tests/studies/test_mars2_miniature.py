"""The miniature of MARS2: its language, its grader, its warm start and its experiment."""

import asyncio
import random

import pytest
from sandboxes import need_a_sandbox
from turns import turn

from mars_env.grading.code.grader import CodeGrader
from mars_env.types import Completion, Grade, Problem, Tree, Verdict
from studies.common.nibbles import nibbles_problems
from studies.mars2 import protocol
from studies.mars2.experiment import (
    right_diversity,
)
from studies.mars2.grader import NibbleGrader
from studies.mars2.protocol import Pair


def pairs():
    return nibbles_problems(level=(1, 3), seed=5, split="test")


def test_an_edit_replaces_the_registers_that_it_writes():
    old = Pair(("inc", "cap"), ("xor5",))
    assert protocol.edited(old, "") == old
    assert protocol.edited(old, "v = v | 2\nv = v & 13\n") == Pair(("inc", "cap"), ("or2", "and13"))
    assert protocol.edited(old, "u = u // 2\nv = v | 2\n") == Pair(("half",), ("or2",))
    assert protocol.edited(old, "import os\nu = u // 2\n") == Pair(("half",), ("xor5",))


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
    seen = set()

    async def both():
        for problem in pairs()[:3]:
            for pair in spoilt(problem, rng):
                wanted = await reference.grade(problem, pair.program)
                found = await fast.grade(problem, pair.program)
                seen.add(wanted.verdict)
                assert (found.verdict, found.score, found.reason, found.feedback) == (
                    wanted.verdict,
                    wanted.score,
                    wanted.reason,
                    wanted.feedback,
                )
        await reference.aclose()

    asyncio.run(both())
    assert seen == {Verdict.CORRECT, Verdict.WRONG}


RIGHT, WRONG = Grade.correct(), Grade.wrong("no")


def searched(*nodes):
    """A search by best-of-n: text, agent, grade and score of each program."""
    turns = []
    for i, (text, agent, grade, score) in enumerate(nodes):
        found = {"grade": grade, "search_score": score, "info": {"call": i}}
        turns.append(turn(str(i), None, Completion(text), agent=agent, tree="p#0", **found))
    return Tree("p#0", Problem("p", "?", None, "code"), tuple(turns))


def fresh_programs(*programs):
    """Of programs of which is known whether they are right."""
    return searched(*((text, agent, RIGHT if right else WRONG, 0.0) for text, agent, right in programs))


def test_diversity_of_right_programs_counts_no_wrong_ones():
    a, b = "coder_0", "coder_1"
    varied = fresh_programs(("w1", a, False), ("w2", b, False), ("r", a, True), ("w3", b, False))
    assert right_diversity([varied], 4) == {"solved": 1.0, "right_pairs": 0.0, "distinct_share": 1.0}
    several = fresh_programs(("r", a, True), ("r", b, True), ("s", b, True), ("w", a, False))
    assert right_diversity([several], 4) == {
        "solved": 1.0,
        "right_pairs": 1.0,
        "distinct_share": pytest.approx(2 / 3),
        "different_right": 0.5,  # of coder_0's with coder_1's: r, r and r, s
    }
    alone = fresh_programs(("r", a, True), ("r", a, True), ("s", a, True), ("w", a, False))
    assert right_diversity([alone], 4)["different_right"] == pytest.approx(2 / 3)
    hopeless = fresh_programs(("w1", a, False), ("w2", b, False))
    assert right_diversity([hopeless], 4) == {"solved": 0.0, "right_pairs": 0.0}
    both = right_diversity([several, hopeless], 4)
    assert both["solved"] == both["right_pairs"] == 0.5 and both["different_right"] == 0.5
    assert right_diversity([several], 2)["different_right"] == 0.0  # of the first two programs alone
