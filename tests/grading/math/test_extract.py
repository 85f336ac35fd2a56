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
    (r"$\boxed{3}$ \quad \text{and} \quad $\boxed{5}$", "3, 5"),
    (r"$x = \boxed{7}$ and $y = \boxed{6}$", "x = 7, y = 6"),
    (r"Either $\boxed{4}$ or $\boxed{5}$.", r"4 \text{ or } 5"),
    ("Final Answer: The largest $n$ is 34.", "34"),
    ("Therefore, the total is $10,455.", r"\$10,455"),
    (r"So $\boxed{25}$.<|im_end|>\n<|im_start|>user\nAnd \boxed{26}?", "25"),
    (r"\boxed{24}. Wait, that is wrong. The final answer is 25.", "25"),
    (r"\boxed{25}. The answer is positive, as it must be.", "25"),
    ('The hint says "the answer is 24". The answer is 25.', "25"),
    ("> **Answer:** 25", "25"),
    ("所以答案为 34。", "34"),
    ("The answer is three bolts.", "3 bolts"),
    ("**Solutions:**\n- x = 3\n- x = -2", "x = 3, x = -2"),
    ("The equation has no real solution.", "no real solution"),
    ("Since $32=2^5$, $\\boldsymbol{x=5}$.", "x=5"),
    ("答案：３４", "34"),
    ("\\boxed{2\u200b5}", "25"),
    ("La réponse est **3**.", "3"),
    ("35 × 10 = 350.\n\nThere are 350 committees.", "350"),
    ("There are **15** marbles.\n\nWould you like another problem?", "15"),
    ("There are **15** marbles. (The others: 20 red.)", "15"),
    ("9 * 2 = 18\nA: 18", "18"),
    ("<answer>The value is 34.</answer>", "34"),
]


@pytest.mark.parametrize(("text", "answer"), ANSWERS)
def test_last_answer(text, answer):
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
        r"<think>\boxed{1}</think> I am lost and cannot say what it is, sorry.",
        r"\boxed{3} <think> wait",
        r"The answer is not \boxed{25}.",
        r"I am afraid that I cannot solve this.<|im_end|>\n<|im_start|>user\nThe answer is \boxed{25}",
        'The problem says: "Final Answer: 25". I cannot solve it, whatever I try.',
        "> Final Answer: 25\n\nThat was the problem; I have no solution of my own to offer.",
        r"<|channel|>analysis<|message|>Maybe \boxed{25}<|end|>",
        "Suppose the answer is 34. Then we get a contradiction, as one sees at once.",
        "Therefore, the probability is at least 2/3.",
        "There are **15** marbles. (It could be 16.)",
        "35 × 10 = 350.\n\nThere are 35 committees.",
        "18\nA: 18\nB: 20\nThe first of the two is what we are looking for",
        "La réponse est donc 34.",
        "The answer is 25. This is wrong.",
        "The answer given in the book is 25; I have no answer of my own to offer here.",
        "The closest answer is 25, as far as one can see from the picture of it.",
    ],
)
def test_no_answer(text):
    assert extract_answer(text).answer is None


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


@pytest.mark.parametrize(
    "piece",
    [
        *("\\boxed{", "{", "}", "$", "answer is ", "answer: \\[", "\\", "<think>", "*", "\n", "\\boxed 5, "),
        *(
            "\\boxed{1} and ",
            "1",
            '"a" ',
            "> a\n",
            "```\n",
            "Problem: a\n",
            "<s>",
            "</s>",
            "<answer>",
            "𝟐",
            "is ",
            "$1 ",
        ),
    ],
)
def test_linear_time(piece):
    text = "\\boxed{1}" * (piece == "}") + piece * (1_000_000 // len(piece))
    started = time.process_time()
    extract_answer(text)
    assert time.process_time() - started < 4


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"$\boxed{5}\sqrt{2}$", r"\left(5\right)\sqrt{2}"),
        (r"$x = -\boxed{\frac12}$", r"-\frac12"),
        (r"$x = \pm\boxed{5}$", r"\pm 5"),
        (r"$\boxed{5}^\circ$", "5"),
        (r"$\boxed{5}$ or $6$", r"5 \text{ or } 6"),
        (r"$\boxed{5}$, $6$ or $7$.", r"5 \text{ or } 7"),
        (r"$\boxed{5}$. I made a mistake. It is 6.", "6"),
        (r"$\boxed{5}$. You might think I meant 6.", "5"),
        ("The answer is 5. Sorry, I meant 6.", "6"),
        (r"$2^{\boxed{5}}$", None),
        (r"$\sqrt{\boxed{5}}$", None),
        (r"A common wrong answer is $\boxed{5}$.", None),
        (r"$\boxed{5}$ does not work.", None),
        (r"So \\boxed{\\frac{1}{2}}.", r"\\frac{1}{2}"),
    ],
)
def test_parts_of_a_box(text, answer):
    assert extract_answer(text).answer == answer
