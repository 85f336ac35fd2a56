import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.grading.math.extract import extract_answer

ANSWERS = [
    (r"so \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
    (r"\fbox{25}", "25"),
    (r"\boxed 5", "5"),
    (r"\boxed{ 25 }", "25"),
    (r"\boxed{24} wait, the final answer is \boxed{25}", "25"),
    (r"\boxed{\boxed{25}}", r"\boxed{25}"),
    (r"\boxed{\left\{1,2\right\}}", r"\left\{1,2\right\}"),
    (r"\boxed{a\}b}", r"a\}b"),
    (r"\boxed{1}, \boxed{2}", "1, 2"),
    (r"$\boxed{1}$ and $\boxed{2}$", "1, 2"),
    (r"first \boxed{1}, so \boxed{2}", "2"),
    (r"\boxed{840}, \boxed{840}", "840"),
    ("The answer is 25.", "25"),
    ("The answer is 3.5.", "3.5"),
    ("The final answer is $25$. I hope it is correct.", "25"),
    ("The answer is $25$ or $26$", "$25$ or $26$"),
    ("The answer is 25, because 5*5=25.", "25"),
    ("the answer is therefore 25", "25"),
    ("The answer to the problem is 17", "17"),
    ("**Answer:** 25", "25"),
    ("**Final Answer**\n\n$$25$$", "25"),
    ("Final answer: \\[\\frac{1}{2}\\]", "\\frac{1}{2}"),
    ("Answer: 12. Then more text.", "12"),
    ("The correct answer is (C).", "(C)"),
    ("There were 5, then 12. **73**", "73"),
    ("some steps\n\n73", "73"),
    ("We get\n$x=5$", "x=5"),
    ("#### 25", "25"),
    ("So we conclude that the value is $\\frac{3}{4}$.", "\\frac{3}{4}"),
    (r"<think>\boxed{1}</think>\boxed{2}", "2"),
]


@pytest.mark.parametrize(("text", "answer"), ANSWERS)
def test_finds_the_last_answer(text, answer):
    assert extract_answer(text).answer == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I could not find any way to solve this problem, sorry.",
        r"\boxed{25",
        r"\boxed{24} or rather \boxed{25",
        r"\boxed{24}, so \boxed{}",
        r"<think>it is \boxed{3}",
        r"a</think><think>\boxed{3}",
        r"\boxed{3} <think> wait",
    ],
)
def test_no_answer_rather_than_an_earlier_or_unfinished_one(text):
    assert extract_answer(text).answer is None


def test_thinking_before_the_last_closing_tag_is_not_read():
    assert (
        extract_answer(r"<think>\boxed{1}</think> I am lost and cannot say what it is, sorry.").answer is None
    )


def test_strict_takes_boxes_only():
    assert extract_answer("The answer is 25.", strict=True).answer is None
    assert extract_answer(r"The answer is 24. \boxed{25}", strict=True).answer == "25"


@given(st.text(alphabet=st.sampled_from(list("\\{}$ boxed*\n.,5answris:<think>/")), max_size=200))
def test_never_raises_and_answers_are_parts_of_the_text(text):
    answer, how = extract_answer(text)
    assert how
    if answer is not None and how != "boxes":
        assert answer in text


@given(st.text(max_size=80), st.integers(-999, 999))
def test_a_box_at_the_end_always_wins(before, value):
    text = before.replace("\\", "").replace("<think>", "") + f" then \\boxed{{{value}}}"
    assert extract_answer(text).answer == str(value)


@pytest.mark.parametrize(
    "piece",
    [
        "\\boxed{",
        "{",
        "}",
        "$",
        "answer is ",
        "answer: \\[",
        "\\",
        "<think>",
        "*",
        "\n",
        "\\boxed 5, ",
        "\\boxed{1} and ",
        "1",
    ],
)
def test_hostile_megabytes_take_linear_time(piece):
    text = "\\boxed{1}" * (piece == "}") + piece * (1_000_000 // len(piece))
    started = time.process_time()
    extract_answer(text)
    assert time.process_time() - started < 4
