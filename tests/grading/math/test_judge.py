from pathlib import Path

import pytest
from rows import read_rows

from mars_env.grading.math.judge import judge, reference_fault
from mars_env.grading.math.nodes import OverLimit

ROWS = read_rows(Path(__file__).with_name("verdicts.jsonl"))


def verdict(reference: str, answer: str) -> str:
    try:
        return "CORRECT" if judge(reference, answer)[0] else "WRONG"
    except (OverLimit, RecursionError):
        return "WRONG"


# "An integer reference is matched as an integer": rows about per cent are for the grader, not for symbols.
SYMBOLIC = [row for row in ROWS if not ("%" in row["answer"] and row["reference"].isdigit())]


@pytest.mark.parametrize("part", range(8))
def test_verdicts_of_competition_mathematics(part):
    rows = SYMBOLIC[part::8]
    assert len(rows) > 100
    assert [row for row in rows if verdict(row["reference"], row["answer"]) != row["verdict"]] == []


def test_every_correct_row_is_symmetric_in_shape():
    """A reference equals itself, however it is written."""
    references = sorted({row["reference"] for row in SYMBOLIC})
    assert [r for r in references if verdict(r, r) != "CORRECT"] == []


FIT = [r"\frac{1}{2}", "x<3", "Monday", r"\{1,2\}", "(B)", "f(x)=x", "1011_2", r"2\text{ cm}", r"\pm 1"]
UNFIT = [r"5^{5^{5^{5^5}}}", r"\foo{", "1/0", "((((", "10^{10^{10}}", "1 2 3 +", r"\int_0^1 x dx"]


@pytest.mark.parametrize("reference", [*FIT, *UNFIT])
def test_references(reference):
    assert bool(reference_fault(reference)) == (reference in UNFIT)


def test_tolerance_applies_to_decimals_only():
    assert judge(r"\frac13", "0.3333", 1e-3)[0]
    assert not judge(r"\frac13", "0.34", 1e-3)[0]
    assert not judge("1000", r"\sqrt{1000001}", 1e-3)[0]


def test_a_lettered_reference_is_compared_as_the_problem_says():
    assert not judge("(C) 48", r"\frac{96}{2}", integer=True)[0]
    assert not judge("(C) 1, 2", "2, 1", ordered=True)[0]


def test_lists_of_up_to_64_items_are_compared():
    items = [str(number) for number in range(65)]
    assert judge(", ".join(items[1:]), ", ".join(items[:0:-1]))[0]
    with pytest.raises(OverLimit):
        judge(", ".join(items), ", ".join(items[::-1]))
