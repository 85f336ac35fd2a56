"""The set `subset-sum` and its check, which accepts each right answer."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
