import collections
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env import load_problems
from mars_env.problems.arithmetic import arithmetic_statement, values, written_steps
from mars_env.types import Problem


def solve(text):
    """Follow the statement literally."""
    match = re.fullmatch(r"Work modulo 1000\. Start with a = (\d+)\. Then (.+)\. What is ([a-z])\?", text)
    known = {"a": int(match[1])}
    for step in match[2].split(", "):
        letter, operand, sign, size = re.fullmatch(r"([a-z]) = ([a-z]) ([+-]) (\d{1,2})", step).groups()
        assert ord(letter) == ord(operand) + 1
        known[letter] = (known[operand] + (1 if sign == "+" else -1) * int(size)) % 1000
    return str(known[match[3]])


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_statement_says_what_the_reference_answers(split):
    for problem in load_problems("arithmetic", n=500, split=split):
        assert solve(problem.statement) == problem.reference == str(values(problem)[-1])
        assert problem.metadata["level"] == len(problem.metadata["terms"]) == len(problem.metadata["signs"])


def test_plus_and_minus_zero_are_told_apart():
    problem = Problem("p", "", "", metadata={"start": 5, "terms": [0, 0], "signs": [1, -1]})
    assert "b = a + 0, c = b - 0." in arithmetic_statement(5, [0, 0], [1, -1])
    assert written_steps(problem) == ("a = 5", "b = 5 + 0 = 5", "c = 5 - 0 = 5")
    signs = {
        sign
        for p in load_problems("arithmetic", n=3000)
        for term, sign in zip(p.metadata["terms"], p.metadata["signs"], strict=True)
        if term == 0
    }
    assert signs == {1, -1}


@given(
    st.integers(0, 999),
    st.lists(st.tuples(st.sampled_from((1, -1)), st.integers(0, 99)), min_size=1, max_size=25),
)
def test_written_steps_lead_to_the_answer(start, pairs):
    signs = [sign for sign, _ in pairs]
    terms = [sign * size for sign, size in pairs]
    problem = Problem("p", "", "", metadata={"start": start, "terms": terms, "signs": signs})
    steps = written_steps(problem)
    assert len(steps) == len(terms) + 1
    assert steps[-1].endswith(f" = {(start + sum(terms)) % 1000}")
    assert solve(arithmetic_statement(start, terms, signs)) == str((start + sum(terms)) % 1000)


@pytest.mark.parametrize("split", ["train", "test"])
def test_draws_are_uniform(split):
    problems = load_problems("arithmetic", n=6000, split=split)
    lengths = collections.Counter(p.metadata["level"] for p in problems)
    assert sorted(lengths) == [1, 2, 3, 4, 5, 6] and all(850 < n < 1150 for n in lengths.values())
    starts = [p.metadata["start"] for p in problems]
    assert min(starts) < 5 and max(starts) > 994 and abs(sum(starts) / len(starts) - 499.5) < 15
    terms = [t for p in problems for t in p.metadata["terms"]]
    assert {abs(t) for t in terms} == set(range(100))
    assert abs(sum(t < 0 for t in terms) / len(terms) - 0.495) < 0.02


def test_lengths_can_be_chosen():
    problems = load_problems("arithmetic", n=200, min_terms=2, max_terms=3)
    assert {p.metadata["level"] for p in problems} == {2, 3}
    assert problems[0].id == "arithmetic-2to3/train/0/0"
    assert load_problems("arithmetic", min_terms=25, max_terms=25)[0].statement.endswith("What is z?")
