"""The embedded sets `programs` and `nibbles`."""

import asyncio
import collections

import pytest
from messages import raises
from sandboxes import need_a_sandbox

from mars_env import load_problems
from mars_env.errors import ConfigError
from mars_env.grading.code.grader import CodeGrader
from mars_env.grading.code.validate import validate_problems
from mars_env.problems.code_nibbles import (
    NIBBLE_OPERATIONS,
    PUBLIC,
    nibble_line,
    nibble_pair_program,
    nibble_program,
    nibble_table,
    nibbles_problems,
)
from mars_env.problems.programs import programs_problems
from mars_env.sandbox import Limits
from mars_env.types import Verdict


@pytest.fixture(scope="module")
def grader():
    need_a_sandbox()
    grader = CodeGrader(limits=Limits(cpu_seconds=3))
    yield grader
    asyncio.run(grader.aclose())


def test_programs_are_many_in_all_forms_and_levels():
    problems = programs_problems()
    assert len(problems) >= 60
    counts = collections.Counter((p.metadata["level"], p.metadata["form"]) for p in problems)
    assert len(counts) == 9 and min(counts.values()) >= 6
    for problem in problems:
        assert problem.metadata["public_tests"] == 2 and len(problem.reference["tests"]) >= 6
        assert problem.reference["solutions"][0] not in problem.statement
    parts = [{p.id for p in programs_problems(split=s)} for s in ("train", "test")]
    assert not parts[0] & parts[1] and len(parts[0] | parts[1]) == len(problems)
    assert {p.metadata["level"] for p in load_problems("programs", level=[2, 3])} == {2, 3}


@pytest.mark.slow
def test_programs_are_fit_for_training(grader):
    found = asyncio.run(validate_problems(programs_problems(), grader, n_mutants=4))
    assert [v for v in found if not v.fit] == []
    assert sum(v.caught for v in found) > 0.85 * sum(v.mutants for v in found)


def test_operations_are_what_their_text_says():
    for name, text in NIBBLE_OPERATIONS.items():
        outputs = tuple(eval(text, {"x": x}) for x in range(16))  # noqa: S307  (our own texts)
        assert outputs == nibble_table([name]) and set(outputs) <= set(range(16)), name
    with raises(ConfigError):
        nibble_program(["jump"])


def test_nibbles_are_judged(grader):
    problem = nibbles_problems(level=3)[0]
    solution = problem.reference["solutions"][0]
    assert asyncio.run(grader.grade(problem, solution)).verdict is Verdict.CORRECT
    table = {x: t["accept"][0] for x, t in zip([*PUBLIC], problem.reference["tests"], strict=False)}
    lookup = f"def f(x): return {table!r}.get(x, 0)"
    assert asyncio.run(grader.search_score(problem, lookup)) == 1.0
    assert asyncio.run(grader.grade(problem, lookup)).verdict is Verdict.WRONG


def test_tests_of_a_pair_come_register_by_register_and_its_solution_passes_them():
    for problem in nibbles_problems(registers=2, level=(1, 3))[:20]:
        tests = problem.reference["tests"]
        public = [tuple(t["arguments"]) for t in tests if t["public"]]
        assert public == [(x, r) for r in (0, 1) for x in PUBLIC] and len(tests) == 32
        namespace: dict = {}
        exec(problem.reference["solutions"][0], namespace)  # noqa: S102  (our own text)
        assert all(namespace["f"](*t["arguments"]) in t["accept"] for t in tests)
        assert all(f"f({x}, {r}) = " in problem.statement for x, r in public)
        assert not any(f"f({x}, {r}) = " in problem.statement for x, r in ((1, 0), (14, 1)))


def test_a_pair_program_computes_its_tables():
    for name in NIBBLE_OPERATIONS:
        namespace: dict = {}
        exec(nibble_pair_program([name], [name, "inc"]), namespace)  # noqa: S102  (our own text)
        assert tuple(namespace["f"](x, 0) for x in range(16)) == nibble_table([name])
        assert tuple(namespace["f"](x, 1) for x in range(16)) == nibble_table([name, "inc"])
    assert nibble_line("v", "floor") == "v = max(v, 4)"  # the x of max stays
