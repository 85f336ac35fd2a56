import inspect
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.grading.math.extract import EMPTY_BOX, UNCLOSED_BOX, extract_answer, undelimited
from mars_env.grading.math.parser import read_integer
from mars_env.grading.message import own_message
from mars_env.types import Problem


def test_only_the_text_is_read():
    assert [*inspect.signature(extract_answer).parameters] == ["text", "strict"]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{25}<|im_end|>\boxed{26}", "26"),
        (r"\boxed{3} \text{ and } \boxed{5}", "3, 5"),
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


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{25}<|im_end|>\boxed{26}", "25"),
        (r"\boxed{24}. No: the answer is 25, as $26 - 1$.", "24"),
        (r"$x = \boxed{2}$ or $x = \boxed{3}$", r"2 \text{ or } 3"),
        (r"$x = \boxed{2}$ and $y = \boxed{3}$", "x = 2, y = 3"),
        (r"\boxed{2} \boxed{3}", r"2 \text{ or } 3"),
        (r"\boxed{2}. Then \boxed{3}", "3"),
        (r"-\boxed{2}", "-2"),
        (r"$x = -\,\boxed{\frac12}$", r"- (\frac12)"),
        (r"- \boxed{2}", "2"),
        (r"\boxed 2", "2"),
        (r"\boxed{\fbox{2}}", r"\fbox{2}"),
    ],
)
def test_boxes(text, answer):
    assert extract_answer(text).answer == answer


@pytest.mark.parametrize(("text", "how"), [(r"\boxed{1}, \boxed{", UNCLOSED_BOX), (r"\boxed{}", EMPTY_BOX)])
def test_a_broken_last_box_is_no_answer(text, how):
    assert extract_answer(text) == (None, how)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The answer is **25**.", "25"),
        ("**Answer:** $25$.", "25"),
        ("Final Answer: The final answer is $3.5$. I hope it is correct.", "3.5"),
        ("The answer is 24. No, the answer is 25.", "25"),
        ("## Answer\n\n25", "25"),
        ("# Answer\n19. Thus there are 20 cards.", "19. Thus there are 20 cards"),
        ("So this is the answer\n19. Thus there are 20 cards.", None),
        ("<answer>x < 3</answer>", "x < 3"),
        ("It is so.\nA: 27", "27"),
        ("A: 27\nB: 28", None),
        ("#### 1,027", "1,027"),
        ("答案是25。", "25"),
        ("It follows that\n\\[\n x = 5 \n\\]", "x = 5"),
        ("It follows that\n$x^2$.", "x^2"),
        ("It follows that $x = 5$.", None),
        ("So:\n**5/16**", "5/16"),
        ("So:\n25", "25"),
        ("19. [Final solution] Thus, there are 20 cards.", None),
        ("There are 25.", None),
        ("", None),
    ],
)
def test_texts_without_a_box(text, answer):
    assert extract_answer(text).answer == answer


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
    st.sampled_from(REFERENCES),
    st.lists(st.sampled_from([*BEFORE[:2], *AFTER[:3]]), min_size=1, max_size=4),
)
def test_a_reference_in_prose_is_no_answer(grader, reference, pieces):
    text = "".join(piece.format(reference) for piece in pieces)
    assert grader.grade_sync(Problem("p", "?", reference), text).verdict == "WRONG"


PIECES = [
    "\\boxed{", "{", "}", "$", "answer is ", "answer: \\[", "\\", "<think>", "*", "\n", "\\boxed 5, ",
    "\\boxed{1} and ", "1", '"a" ', "> a\n", "$$\n", "\\[\n", "<s>", "</s>", "<answer>", "𝟐", "A: ",
]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_linear_time(piece):
    text = "\\boxed{1}" * (piece == "}") + piece * (1_000_000 // len(piece))
    started = time.process_time()
    extract_answer(text)
    assert time.process_time() - started < 4
