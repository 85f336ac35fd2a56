"""Cover exact match by hand."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import read_rows

from mars_env.grading.cover import CoverMatch
from mars_env.types import Problem, Verdict


@pytest.mark.parametrize("row", read_rows(Path(__file__).with_name("cover.jsonl")), ids=str)
async def test_the_references_words_must_follow_each_other(row):
    grade = await CoverMatch().grade(Problem("p", "?", row["reference"]), row["text"])
    assert grade.verdict == row["verdict"]


@given(st.text(), st.text(), st.text())
async def test_what_contains_the_reference_as_words_is_correct(before, reference, after):
    grade = await CoverMatch().grade(Problem("p", "?", reference), f"{before} {reference} {after}")
    if grade.verdict is not Verdict.UNKNOWN and len(reference.strip()) > 1:
        assert grade.verdict is Verdict.CORRECT
