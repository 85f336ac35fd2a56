import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.grading.math.parser import read_integer

IS_25 = ["25", "025", "+25", "25.", "25.000", "$25$", r"\text{25}", r"\mathbf{25}", " 25 ", r"\,25", "{25}"]
NO_INTEGER = [
    "", "x", "25.3", "25 or 26", r"2500\%", "2 5", "25,26", "1,02", "0x19", "²⁵", "1e2", "--5",
    r"\{25\}",
]  # fmt: skip


@pytest.mark.parametrize("text", IS_25)
def test_plain_notations(text):
    assert read_integer(text) == 25


@pytest.mark.parametrize("text", [*NO_INTEGER, "9" * 10**6])
def test_everything_else_is_left_alone(text):
    assert read_integer(text) is None


@given(st.integers(-(10**12), 10**12))
def test_every_integer_reads_as_itself(value):
    for comma in (",", "{,}", ",\\!", "\\,"):
        assert read_integer(f"${value:,}$".replace(",", comma)) == value


@given(st.text(alphabet="0123456789+-.,{}$\\! %text", max_size=12))
def test_what_is_read_has_no_other_digits(text):
    value = read_integer(text)
    if value is not None:
        digits = "".join(c for c in text if c.isdigit()).lstrip("0")
        assert digits.removeprefix(str(abs(value))).strip("0") == ""  # the rest are decimals
