import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.grading.math.closing import claimed
from mars_env.grading.math.extract import extract_answer
from mars_env.grading.math.parser import read_integer
from mars_env.grading.math.sentences import (
    clause,
    is_value,
    only_number,
    stated,
    undelimited,
    without_remarks,
)
from mars_env.grading.math.tokens import escape_money
from mars_env.grading.message import own_message

PROSE = st.text(alphabet=st.sampled_from(list("answeri not so 0123$\\(){}.,:?*\"'>\n答案是或")), max_size=120)
SAYS = [
    "The answer is {}.",
    "Final Answer: {}",
    "So the least $n$ is {}.",
    "#### {}",
    "答案是{}。",
]


@given(PROSE)
def test_any_prose(text):
    clause(text), stated(text), claimed(text, text), is_value(text), only_number(text), without_remarks(text)
    assert undelimited(undelimited(text)) == undelimited(text)
    assert escape_money(escape_money(text)) == escape_money(text)


@given(st.sampled_from(SAYS), st.integers(-(10**6), 10**6))
def test_stated_numbers(says, value):
    assert read_integer(extract_answer(says.format(value)).answer or "") == value


@given(
    st.sampled_from(SAYS), st.integers(0, 10**6), st.sampled_from(["{} or 7.5", "not {}", "maybe {}", "{}?"])
)
def test_hedged_numbers(says, value, hedge):
    answer = extract_answer(says.format(hedge.format(value)).replace("?.", "?")).answer
    assert answer is None or read_integer(answer) is None


@given(st.integers(-999, 999), PROSE)
def test_end_tokens(value, after):
    assert extract_answer(rf"\boxed{{{value}}}<|im_end|>{after}\boxed{{7}}").answer == str(value)
    assert own_message(f"x<|im_end|>{after}") == "x"


@given(
    st.integers(1, 999),
    st.sampled_from(['"{}"', "“{}”", "«{}»", "「{}」", "> {}", "```\n{}\n```", "Problem: {}"]),
)
def test_quotations(value, quote):
    said = quote.format(f"Note that the final answer is {value}.")
    assert extract_answer(f"{said}\n\nI have looked at it for long and cannot solve it.").answer is None


MONEY = r"""
$10,200 + $255 = $10,455. | \$10,200 + \$255 = \$10,455.
$10,455$ | $10,455$
it costs $5 | it costs \$5
$x$ and $5$ | $x$ and $5$
\$5 and $x$ | \$5 and $x$
$2 < x$ of $7 | $2 < x$ of \$7
"""
REMARKS = """
It is **5/16** (about 31.25%). | It is **5/16**.
It is $7$ cm (and its length is $14$ cm). | It is $7$ cm.
It is **5** (or 6). | It is **5** (or 6).
The minimum is 4, attained at $x = 2$. | The minimum is 4
The maximum is 4, which occurs at x = 2. | The maximum is 4
Ali has 20 books, while Bo has 10. | Ali has 20 books
The longer side is 15, not 16. | The longer side is 15
$x = 1$ (a double root) and $x = 2$ | $x = 1$ and $x = 2$
"""


@pytest.mark.parametrize(("read", "table"), [(escape_money, MONEY), (without_remarks, REMARKS)])
def test_readers_of_a_sentence(read, table):
    for row in table.strip().splitlines():
        sentence, _, value = row.partition(" | ")
        assert str(read(sentence)) == value
