import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.grading.math.extract import extract_answer
from mars_env.grading.math.parser import read_integer
from mars_env.grading.math.phrases import clause, concluded, is_value, last_statement, peel, stated
from mars_env.grading.math.tokens import escape_money
from mars_env.grading.math.transcript import Quotations
from mars_env.grading.message import own_message

PROSE = st.text(
    alphabet=st.sampled_from(list("answeri not so 0123$\\(){}.,:?*\"'>\n答案是réponse或")), max_size=120
)
SAYS = [
    "The answer is {}.",
    "Final Answer: {}",
    "So the least $n$ is {}.",
    "La réponse est {}.",
    "答案是{}。",
]


@given(PROSE)
def test_readers_of_prose_take_anything(text):
    clause(text), stated(text), concluded(text), is_value(text)
    last_statement(text, Quotations(text))
    assert peel(peel(text)) == peel(text)
    assert escape_money(escape_money(text)) == escape_money(text)


@given(st.sampled_from(SAYS), st.integers(-(10**6), 10**6))
def test_a_stated_number_is_found(says, value):
    assert read_integer(extract_answer(says.format(value)).answer or "") == value


@given(
    st.sampled_from(SAYS), st.integers(0, 10**6), st.sampled_from(["{} or 7.5", "not {}", "maybe {}", "{}?"])
)
def test_a_hedged_number_is_not(says, value, hedge):
    answer = extract_answer(says.format(hedge.format(value)).replace("?.", "?")).answer
    assert answer is None or read_integer(answer) is None


@given(st.integers(-999, 999), PROSE)
def test_nothing_after_the_end_token_is_read(value, after):
    assert extract_answer(rf"\boxed{{{value}}}<|im_end|>{after}\boxed{{7}}").answer == str(value)
    assert own_message(f"x<|im_end|>{after}") == "x"


@given(
    st.integers(1, 999),
    st.sampled_from(['"{}"', "“{}”", "«{}»", "「{}」", "> {}", "```\n{}\n```", "Problem: {}"]),
)
def test_what_is_quoted_is_not_said(value, quote):
    said = quote.format(f"Note that the final answer is {value}.")
    assert extract_answer(f"{said}\n\nI have looked at it for long and cannot solve it.").answer is None


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("$10,200 + $255 = $10,455.", r"\$10,200 + \$255 = \$10,455."),
        ("$10,455$", "$10,455$"),
        ("it costs $5", r"it costs \$5"),
        ("$x$ and $5$", "$x$ and $5$"),
        (r"\$5 and $x$", r"\$5 and $x$"),
        ("$2 < x$ of $7", r"$2 < x$ of \$7"),
    ],
)
def test_money_is_told_from_formulas(text, escaped):
    assert escape_money(text) == escaped
