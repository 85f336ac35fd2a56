"""Cover exact match by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.grading.cover import CoverMatch
from mars_env.types import Problem, Verdict


@pytest.mark.parametrize(
    ("reference", "text", "verdict"),
    [
        ("17", "It is 17.", "CORRECT"),
        ("17", "It is 117 or 1.7.", "WRONG"),
        ("1,204.50", "$1204.50 in all", "CORRECT"),
        ("1.5", "15", "WRONG"),
        ("-17", "It is 17.", "WRONG"),
        ("17", "It is -17.", "WRONG"),
        ("17", "It is −17.", "WRONG"),
        ("-17", "It is \u221217.", "CORRECT"),
        ("-$1,204", "It is **-1204**.", "CORRECT"),
        ("-$5", "$5", "WRONG"),
        ("-0.5%", "0.5%", "WRONG"),
        ("-5", "the pair (3,-5)", "CORRECT"),
        ("2020", "in 2019-2020", "CORRECT"),
        ("-2020", "in 2019-2020", "WRONG"),
        ("17%", "10%-17%", "CORRECT"),
        ("3", "model x-3", "CORRECT"),
        ("17", "a profit--17 million", "CORRECT"),
        ("Net Profit", "the NET\nprofit", "CORRECT"),
        ("net profit", "profit, net", "WRONG"),
        ("ＡＢＣ", "abc", "CORRECT"),
        ("", "17", "UNKNOWN"),
        ("...", "17", "UNKNOWN"),
        ("A", "A dog? I take B. No: A.", "CORRECT"),
        ("A", "A is wrong, so B.", "WRONG"),
        ("A", "a", "WRONG"),
        ("B", "The answer is (B), which I verified.", "CORRECT"),
        ("B", "The answer is B. I am sure; I'd stake my name.", "CORRECT"),
        ("B", "The answer is B. A quick check confirms this.", "CORRECT"),
        ("A", "The answer is B. A quick check confirms this.", "WRONG"),
        ("I", "I think it is B.", "WRONG"),
        ("I", "The answer is (I).", "CORRECT"),
        ("A", "A is right.", "CORRECT"),
        ("A", "I take A by the third report.", "CORRECT"),
        ("B", "The answer is B. No, A is right.", "WRONG"),
        ("17 million", "<think>17 million? No.</think>It was 18 million.", "WRONG"),
        ("17 million", "<think>18 million? No.</think>It was 17 million.", "CORRECT"),
        ("17 million", "<think>It was 17 million.", "WRONG"),
        ("B", "<think>B</think>It is C.", "WRONG"),
        ("(A)", "It is a matter of taste: (B).", "WRONG"),
        ("A.", "It is a matter of taste: (A).", "CORRECT"),
        ("B", "答案是B。", "CORRECT"),
        ("B", "B不对，选A。", "WRONG"),
        (0, "It is 0.", "CORRECT"),
        (0, "It is 10.", "WRONG"),
        (None, "It is 0.", "UNKNOWN"),
        ("巴黎", "答案是巴黎。", "CORRECT"),
        ("巴黎", "答案是伦敦。", "WRONG"),
        ("17万", "一共17万元。", "CORRECT"),
        ("17万", "一共117万元。", "WRONG"),
        ("東京", "Tokyo (東京都)", "CORRECT"),
    ],
)
async def test_the_references_words_must_follow_each_other(reference, text, verdict):
    assert (await CoverMatch().grade(Problem("p", "?", reference), text)).verdict == verdict


@given(st.text(), st.text(), st.text())
async def test_what_contains_the_reference_as_words_is_correct(before, reference, after):
    grade = await CoverMatch().grade(Problem("p", "?", reference), f"{before} {reference} {after}")
    if grade.verdict is not Verdict.UNKNOWN and len(reference.strip()) > 1:
        assert grade.verdict is Verdict.CORRECT
