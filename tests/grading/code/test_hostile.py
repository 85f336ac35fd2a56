"""Programs that cheat must be WRONG, whatever they try; unusual but honest ones must be CORRECT."""

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandboxes import WORKING, need

from mars_env.grading.code import values
from mars_env.grading.code.compare import values_match
from mars_env.grading.code.grader import CodeGrader, _read_sent
from mars_env.problems.code import code_problem_from_row
from mars_env.sandbox import Limits
from mars_env.types import Verdict

HERE = Path(__file__).parent
ROWS = json.loads((HERE / "problems.json").read_text(encoding="utf-8"))
PROBLEMS = {name: code_problem_from_row(row) for name, row in ROWS.items()}
"""The second request of TALK is larger than what fits into a socket that the program does not read."""
LIMITS = Limits(
    cpu_seconds=1.5, idle_seconds=0.7, wall_seconds=60, memory_bytes=300 << 20, output_bytes=1 << 20
)


def programs(wanted):
    text = (HERE / "programs.txt").read_text(encoding="utf-8").replace("<NUL>", "\0")
    for section in text.split("\n=== ")[1:]:
        head, _, program = section.partition("\n")
        label, kind, problem = head.split(" | ")
        if label == wanted:
            yield pytest.param(PROBLEMS[problem], program, id=f"{kind}-{problem}")


HOSTILE, HONEST = list(programs("hostile")), list(programs("honest"))
WEAKER = "landlock" if WORKING["landlock"].works else "bubblewrap"
"""Bubblewrap guarantees all that Landlock does: what gains nothing there gains nothing here."""


@pytest.fixture(scope="module", params=["bubblewrap", "landlock"])
def grader(request):
    need(request.param)
    grader = CodeGrader(backend=request.param, limits=LIMITS)
    yield grader
    asyncio.run(grader.aclose())


@pytest.mark.parametrize("grader", [WEAKER], indirect=True)
@pytest.mark.parametrize(("problem", "program"), HOSTILE)
def test_hostile_programs_are_wrong_and_never_unknown(grader, problem, program):
    grade = asyncio.run(grader.grade(problem, program))
    assert grade.verdict is Verdict.WRONG, grade
    assert len(grade.feedback) <= 2100 and len(grade.reason) < 500


@pytest.mark.parametrize(("problem", "program"), HONEST)
def test_honest_programs_are_correct(grader, problem, program):
    grade = asyncio.run(grader.grade(problem, program))
    assert grade.verdict is Verdict.CORRECT, grade


RESULTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(RESULTS, st.binary(max_size=80), st.data())
def test_bytes_that_a_program_sends_are_right_only_if_they_say_the_result(value, other, data):
    packet = bytearray(values.encode(("result", value)))
    packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.integers(0, 255))
    for sent in (bytes(packet), other, b"5"):
        if _read_sent(sent, [value], None).right:
            kind, still = values.decode(sent, hashed=False)
            assert kind == "result" and values_match(value, still)
