from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.grading.math.exact import exact_value
from mars_env.grading.math.nodes import OverLimit, Unreadable
from mars_env.grading.math.parser import read_answer


def expressions() -> st.SearchStrategy[tuple[str, Fraction]]:
    """LaTeX of random arithmetic, with the value that Python computes for it."""
    numbers = st.integers(0, 99).map(lambda n: (str(n), Fraction(n)))

    def bigger(inner):
        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(lambda p: (rf"\left({p[0][0]}+{p[1][0]}\right)", p[0][1] + p[1][1])),
            pair.map(lambda p: (f"({p[0][0]}-{p[1][0]})", p[0][1] - p[1][1])),
            pair.map(lambda p: (rf"({p[0][0]}) \cdot ({p[1][0]})", p[0][1] * p[1][1])),
            pair.filter(lambda p: p[1][1] != 0).map(
                lambda p: (rf"\frac{{{p[0][0]}}}{{{p[1][0]}}}", p[0][1] / p[1][1])
            ),
            inner.map(lambda p: (f"({p[0]})^2", p[1] ** 2)),
            inner.map(lambda p: (f"-({p[0]})", -p[1])),
        )

    return st.recursive(numbers, bigger, max_leaves=8)


@given(expressions())
def test_arithmetic_is_read_as_it_is_meant(expression):
    text, value = expression
    try:
        assert exact_value(read_answer(text), 1 << 16) == value
    except OverLimit:
        assert "{" in text or "^" in text


VALUES = r"""
\frac12 = 1/2 | \frac{50}{2} = 25 | 2\frac12 = 5/2 | 2 1/2 = 5/2 | -2\frac{1}{2} = -5/2 | 2\cdot\frac12 = 1
5! = 120 | \binom{5}{2} = 10 | 2^10 = 1024 | 2^{-3} = 1/8 | 1011_2 = 11 | 2A_{16} = 42 | 0.\overline{3} = 1/3
3.2\times 10^5 = 320000 | 50\% = 1/2 | 1,024 = 1024
7!! = 105 | ½ = 1/2 | 3² = 9 | 1/2/2 = 1/4 | -2^2 = -4
"""


@pytest.mark.parametrize("row", [row for line in VALUES.strip().splitlines() for row in line.split(" | ")])
def test_values(row):
    text, _, value = row.partition(" = ")
    assert exact_value(read_answer(text)) == Fraction(value)


REFUSED = ["", "2 5", "1+", "(1", "1)", "\\frac{1}", "x == ", r"\foo", "1,,2", "12_2", "a ∮ b"]


@pytest.mark.parametrize("text", [*REFUSED, "\\begin{pmatrix}1&2\\\\3\\end{pmatrix}"])
def test_refusals(text):
    with pytest.raises(Unreadable):
        read_answer(text)


@pytest.mark.parametrize("text", ["1" * 20_000, "(" * 200 + "1" + ")" * 200, "9" * 5000, "1e99999"])
def test_limits_of_size(text):
    with pytest.raises(OverLimit):
        read_answer(text)


LARGE = [
    r"5^{5^{5^{5^5}}}",
    "999999999!",
    r"2^{10^{9}}",
    r"\binom{10^{10}}{10^9}",
    "((9!)!)!",
    r"(2^{60000})^{60000}",
]


@pytest.mark.parametrize("text", LARGE)
def test_large_values_are_refused_before_they_are_computed(text):
    with pytest.raises(OverLimit):
        exact_value(read_answer(text))
