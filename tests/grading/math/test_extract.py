import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.grading.math.extract import extract_answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{25}<|im_end|>\boxed{26}", "26"),
        (r"\boxed{3} \text{ and } \boxed{5}", "5"),
        ("\\boxed{2\u200b5}", "2\u200b5"),
        (r"The answer is not \boxed{25}.", "25"),
        (r"\boxed{24}. The final answer is 25.", "24"),
        (r'The hint says "write \boxed{25}", but why?', "25"),
        (r"\boxed{1}, \boxed{2}", "1, 2"),
        ("The answer is 25.", None),
        (r"The answer is 24. \boxed{25}", "25"),
    ],
)
def test_strict(text, answer):
    assert extract_answer(text, strict=True).answer == answer


@given(st.text(alphabet=st.sampled_from(list("\\{}$ boxed*\n.,5answris:<think>/")), max_size=200))
def test_any_text(text):
    answer, how = extract_answer(text)
    assert how and (answer is None or how != "box" or answer in text)


@given(st.text(max_size=80), st.integers(-999, 999))
def test_a_box_at_the_end_wins(before, value):
    text = before.replace("\\", "").replace("<", "") + f" then \\boxed{{{value}}}"
    assert extract_answer(text).answer == str(value)


PIECES = [
    "\\boxed{", "{", "}", "$", "answer is ", "answer: \\[", "\\", "<think>", "*", "\n", "\\boxed 5, ",
    "\\boxed{1} and ", "1", '"a" ', "> a\n", "```\n", "Problem: a\n", "<s>", "</s>", "<answer>", "𝟐", "is ",
]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_linear_time(piece):
    text = "\\boxed{1}" * (piece == "}") + piece * (1_000_000 // len(piece))
    started = time.process_time()
    extract_answer(text)
    assert time.process_time() - started < 4
