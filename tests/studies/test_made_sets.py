"""The made sets of the studies: `subset-sum`, whose check accepts each right answer, and `nibbles`."""

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandboxes import need_a_sandbox

from mars_env.grading.code.grader import CodeGrader
from mars_env.sandbox import Limits
from studies.common.nibbles import PUBLIC, nibbles_problems
from studies.common.subset_sum import GRADER, parse_numbers, subset_sum_problems, subset_sum_statement


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_statement_says_what_the_metadata_say(split):
    for problem in subset_sum_problems(split=split)[:300]:
        *numbers, target = map(int, re.findall(r"\d+", problem.statement))
        assert numbers == problem.metadata["numbers"] == sorted(set(numbers))
        assert target == problem.metadata["target"]
        assert problem.statement == subset_sum_statement(numbers, target)
        chosen = tuple(map(int, problem.reference.split(", ")))
        assert sum(chosen) == target and set(chosen) <= set(numbers)
        assert len({*chosen}) == len(chosen) == problem.metadata["level"]
        assert len(numbers) == 7 and max(numbers) <= 15 and GRADER.check_reference(problem) is None


def test_every_right_answer_and_no_other_is_correct():
    several = 0
    for problem in subset_sum_problems()[:40]:
        numbers, target = problem.metadata["numbers"], problem.metadata["target"]
        right = 0
        for mask in range(1, 2 ** len(numbers)):
            chosen = tuple(number for i, number in enumerate(numbers) if mask >> i & 1)
            text = rf"I take \boxed{{{', '.join(map(str, reversed(chosen)))}}}."
            right += sum(chosen) == target
            expected = "CORRECT" if sum(chosen) == target else "WRONG"
            assert GRADER.grade_sync(problem, text).verdict == expected, (problem.statement, text)
        several += right > 1
    assert several > 20


@given(st.text(alphabet="0123456789,;+= and{}\\()$.~\n²³١", max_size=60))
def test_any_text_is_a_list_of_numbers_or_none(text):
    numbers = parse_numbers(text)
    assert numbers is None or all(0 <= number < 10**6 for number in numbers)


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
