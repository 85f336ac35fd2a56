import collections
import re

import pytest

from mars_env import load_problems
from mars_env.grading import grade
from mars_env.problems.subset_sum import subset_sum_statement


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_statement_says_what_the_metadata_say(split):
    for problem in load_problems("subset-sum", n=300, split=split):
        *numbers, target = map(int, re.findall(r"\d+", problem.statement))
        assert numbers == problem.metadata["numbers"] == sorted(set(numbers))
        assert target == problem.metadata["target"]
        assert problem.statement == subset_sum_statement(numbers, target)
        chosen = tuple(map(int, problem.reference.split(", ")))
        assert sum(chosen) == target and set(chosen) <= set(numbers)
        assert len({*chosen}) == len(chosen) == problem.metadata["level"]
        assert len(numbers) == 7 and max(numbers) <= 15


def test_every_right_answer_and_no_other_is_correct():
    several = 0
    for problem in load_problems("subset-sum", n=40):
        numbers, target = problem.metadata["numbers"], problem.metadata["target"]
        right = 0
        for mask in range(1, 2 ** len(numbers)):
            chosen = tuple(number for i, number in enumerate(numbers) if mask >> i & 1)
            text = rf"I take \boxed{{{', '.join(map(str, reversed(chosen)))}}}."
            right += sum(chosen) == target
            expected = "CORRECT" if sum(chosen) == target else "WRONG"
            assert grade(problem, text).verdict == expected, (problem.statement, text)
        several += right > 1
    assert several > 20


def test_the_number_of_parts_is_uniform():
    levels = collections.Counter(p.metadata["level"] for p in load_problems("subset-sum", n=3000))
    assert set(levels) == {2, 3, 4} and min(levels.values()) > 900


def test_other_sizes_have_other_ids():
    problems = load_problems("subset-sum", n=50, count=5, largest=40, min_parts=3, max_parts=3)
    assert problems[0].id == "subset-sum-5of40-3to3/train/0/0"
    assert all(p.metadata["level"] == 3 and len(p.metadata["numbers"]) == 5 for p in problems)
