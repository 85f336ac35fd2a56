import inspect
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import read_rows

from mars_env.grading.math.extract import extract_answer, undelimited
from mars_env.grading.math.parser import read_integer
from mars_env.grading.message import own_message
from mars_env.types import Problem


def test_only_the_text_is_read():
    assert [*inspect.signature(extract_answer).parameters] == ["text", "strict"]


@pytest.mark.parametrize("row", read_rows(Path(__file__).with_name("extracts.jsonl")), ids=str)
def test_what_is_read_as_the_answer(row):
    answer, how = extract_answer(row["text"], strict=row.get("strict", False))
    assert (answer, row.get("how", how)) == (row["answer"], how)


@given(st.text(alphabet=st.sampled_from(list("\\{}$ boxed*\n.,5answris:<think>/")), max_size=200))
def test_any_text(text):
    answer, how = extract_answer(text)
    assert how and (answer is None or how != "box" or answer in text)
    assert undelimited(undelimited(text)) == undelimited(text)


@given(st.text(max_size=80), st.integers(-999, 999))
def test_a_box_at_the_end_wins(before, value):
    text = before.replace("\\", "").replace("<", "") + f" then \\boxed{{{value}}}"
    assert extract_answer(text).answer == str(value)


@given(st.integers(-999, 999), st.text(max_size=80))
def test_end_tokens(value, after):
    assert extract_answer(rf"\boxed{{{value}}}<|im_end|>{after}\boxed{{7}}").answer == str(value)
    assert own_message(f"x<|im_end|>{after}") == "x"


@given(
    st.sampled_from(["The answer is {}.", "Final Answer: {}", "#### {}", "答案是{}。", "So\n{}"]),
    st.integers(),
)
def test_numbers_in_sentences(sentence, value):
    assert read_integer(extract_answer(sentence.format(value)).answer or "") == value


REFERENCES = ("19", r"\frac{3}{4}", "x^2+1", r"(2, \infty)", "3, 5")
ANSWERS = (*REFERENCES, "20", "0.75", "x > 2")
FRAMES = (r"So $n = \boxed{{{}}}$.", "The answer is ${}$.", "#### {}", "So\n\n$${}$$")
BEFORE = (
    "{}. [Final solution] Thus, we are done. ",
    "{} cards have it.\n",
    "<think>It is $\\boxed{{{}}}$.</think>",
    "We guess $\\boxed{{{}}}$, but look again.\n",
    "**{}**\n\n",
    "$${}$$\n",
)
AFTER = (
    " (That is {}.)",
    "\n{}. [Final solution] Thus, we are done.",
    "\nCheck: we find {}.",
    "\nThe answer is {}.",
    "\n**{}**",
    "\n{}",
    " or {}",
)


@given(
    st.sampled_from(REFERENCES),
    st.sampled_from(ANSWERS),
    st.sampled_from(FRAMES),
    st.lists(st.sampled_from(BEFORE), max_size=3),
    st.lists(st.sampled_from(AFTER), max_size=3),
)
def test_a_reference_that_is_planted_outside_of_the_answer_changes_nothing(
    grader, reference, answer, frame, before, after
):
    """Before any answer, and after a box, where nothing is read."""
    if "box" not in frame:
        before, after = [piece for piece in before if "think" in piece or "box" not in piece], []
    text = frame.format(answer)
    planted = "".join(piece.format(reference) for piece in before) + text
    planted += "".join(piece.format(reference) for piece in after)
    problem = Problem("p", "?", reference)
    assert grader.grade_sync(problem, planted).verdict is grader.grade_sync(problem, text).verdict


@given(
    st.sampled_from(REFERENCES), st.lists(st.sampled_from([*BEFORE[:2], *AFTER[:3]]), min_size=1, max_size=4)
)
def test_a_reference_in_prose_is_no_answer(grader, reference, pieces):
    text = "".join(piece.format(reference) for piece in pieces)
    assert grader.grade_sync(Problem("p", "?", reference), text).verdict == "WRONG"
