"""The set `nibbles`: programs of two registers."""

import asyncio

import pytest
from sandboxes import need_a_sandbox

from mars_env.grading.code.grader import CodeGrader
from mars_env.sandbox import Limits
from studies.common.nibbles import (
    PUBLIC,
    nibbles_problems,
)


@pytest.mark.parametrize(("shown", "inputs"), [(6, PUBLIC), (3, (3, 9, 15)), (1, (15,))])
def test_tests_come_register_by_register_and_the_solution_passes_them(shown, inputs):
    for problem in nibbles_problems(level=(1, 3), shown=shown)[:20]:
        tests = problem.reference["tests"]
        calls = [tuple(test["arguments"]) for test in tests]
        public = [tuple(test["arguments"]) for test in tests if test["public"]]
        assert public == [(x, r) for r in (0, 1) for x in inputs] and len({*calls}) == len(calls) == 32
        namespace: dict = {}
        exec(problem.reference["solutions"][0], namespace)  # noqa: S102  (our own text)
        assert all(namespace["f"](*test["arguments"]) in test["accept"] for test in tests)
        assert all((f"f({x}, {r}) = " in problem.statement) == ((x, r) in public) for x, r in calls)


def test_a_table_of_what_is_shown_passes_only_the_public_tests():
    need_a_sandbox()
    grader, problem = CodeGrader(limits=Limits(cpu_seconds=3)), nibbles_problems(level=(3, 3))[0]
    table = {tuple(t["arguments"]): t["accept"][0] for t in problem.reference["tests"] if t["public"]}
    texts = problem.reference["solutions"][0], f"def f(x, r): return {table!r}.get((x, r), 0)"
    verdicts = [asyncio.run(grader.grade(problem, text)).verdict for text in texts]
    assert verdicts == ["CORRECT", "WRONG"]
    assert asyncio.run(grader.search_score(problem, texts[1])) == 1.0
    asyncio.run(grader.aclose())
