import json
from pathlib import Path

import pytest

from mars_env.grading.math import sets
from mars_env.grading.math.expressions import same_expression
from mars_env.grading.math.extract import extract_answer
from mars_env.grading.math.judge import judge, unfit
from mars_env.grading.math.nodes import OverLimit
from mars_env.grading.math.parser import read_answer

ROWS = [json.loads(line) for line in Path(__file__).with_name("verdicts.jsonl").read_text().splitlines()]
SHARED = Path(__file__).parents[3].parent / "shared" / "data" / "math_verdicts.json"


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


@pytest.mark.skipif(not SHARED.exists(), reason="the shared cases are not beside this checkout")
def test_cases_of_math_verify_s_threads():
    for row in json.loads(SHARED.read_text()):
        if row["completion"] == r"$\boxed{2500\%}$":
            continue  # decided by the integer path; see test_math.py
        answer = extract_answer(row["completion"]).answer
        assert verdict(row["reference"], answer) == row["verdict"], row


FIT = [r"\frac{1}{2}", "x<3", "Monday", r"\{1,2\}", "(B)", "f(x)=x", "1011_2", r"2\text{ cm}", r"\pm 1"]
UNFIT = [r"5^{5^{5^{5^5}}}", r"\foo{", "1/0", "((((", "10^{10^{10}}", "1 2 3 +", r"\int_0^1 x dx"]


@pytest.mark.parametrize("reference", [*FIT, *UNFIT])
def test_references(reference):
    assert bool(unfit(reference)) == (reference in UNFIT)


def test_values_that_differ_far_behind_the_point():
    assert not judge("1", "1+10^{-300}")[0]
    assert not judge(
        r"\sqrt{2}", "1.4142135623730950488016887242096980785696718753769480731766797379907324784621"
    )[0]
    assert not judge(r"\sqrt{2}+e^{-500}", r"\sqrt{2}")[0]
    assert judge(r"\sin(\pi)", "0")[0]
    assert judge(r"\sqrt{2}+\sqrt{3}-\sqrt{5+2\sqrt{6}}", "0")[0]


def test_tolerance_applies_to_decimals_only():
    assert judge(r"\frac13", "0.3333", 1e-3)[0]
    assert not judge(r"\frac13", "0.34", 1e-3)[0]
    assert not judge("1000", r"\sqrt{1000001}", 1e-3)[0]


@pytest.mark.parametrize(
    ("a", "b"), [("x", "|x|"), (r"\sqrt{x^2}", "x"), (r"\ln x", r"\log x"), ("(-1)^n", "1")]
)
def test_expressions_that_agree_only_somewhere(a, b):
    assert not same_expression(read_answer(a), read_answer(b))


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (r"\mathbb{R}\setminus\{0\}", r"x \ne 0", True),
        (r"(0,1)\cup(1,2)", "(0,2)", False),
        (r"x<1 \text{ or } x\ge 1", r"\mathbb{R}", True),
    ],
)
def test_real_sets(a, b, same):
    assert sets.same_set(read_answer(a), read_answer(b)) is same


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("f(x) = 2x", "f(t) = t + x"),
        ("f(x,y) = x - y", "f(y,x) = x - y"),
        (r"2k, k\in\mathbb{Z}", r"n+k, n\in\mathbb{Z}"),
    ],
)
def test_renaming_keeps_other_names(reference, answer):
    assert not judge(reference, answer)[0]


def test_sums_of_indexed_names():
    assert not judge(r"\sum_{k=1}^{n} a_k", "n a_k")[0]


def test_one_name_or_two():
    assert not judge(r"x=1 \text{ or } x=2", r"x=1 \text{ and } y=2")[0]
    assert not judge(r"\{1,2\}", "x=1, y=2")[0] and judge(r"\{1,2\}", "x=1, x=2")[0]


def test_a_lettered_reference_is_compared_as_the_problem_says():
    assert judge("(C) 48", r"\frac{96}{2}")[0]
    assert not judge("(C) 48", r"\frac{96}{2}", integer=True)[0]
    assert judge("(C) 1, 2", "2, 1")[0]
    assert not judge("(C) 1, 2", "2, 1", ordered=True)[0]


def test_lists_of_up_to_64_items_are_compared():
    items = [str(number) for number in range(65)]
    assert judge(", ".join(items[1:]), ", ".join(items[:0:-1]))[0]
    with pytest.raises(OverLimit):
        judge(", ".join(items), ", ".join(items[::-1]))


@pytest.mark.parametrize("between", ["&", r"\\"])
def test_a_vector_is_written_as_a_row_or_a_column(between):
    matrix = rf"\begin{{pmatrix}} 1 {between} 2 {between} 3 \end{{pmatrix}}"
    assert judge("(1, 2, 3)", matrix)[0]
    assert not judge("(1, 3, 2)", matrix)[0]


@pytest.mark.parametrize(
    ("reference", "answer"), [("y < 2x", "y = 2x"), (r"y \le 2x", "f(x) = 2x"), ("x + 1", "y = 5 = x + 1")]
)
def test_an_equation_is_no_inequality_and_all_its_steps_count(reference, answer):
    assert judge(reference, reference)[0]
    assert not judge(reference, answer)[0]
