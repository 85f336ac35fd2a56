import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.grading.math.nodes import Unreadable
from mars_env.grading.math.parser import read_answer, read_integer
from mars_env.grading.math.tokens import as_ascii

NO_INTEGER = [
    "", "x", "25.3", "25 or 26", r"2500\%", "2 5", "25,26", "1,02", "0x19", "²⁵", "--5",
    r"\{25\}",
]  # fmt: skip


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
    if value is not None and "e" not in text:  # 1e2 is 100
        digits = "".join(c for c in text if c.isdigit()).lstrip("0")
        assert digits.removeprefix(str(abs(value))).strip("0") == ""  # the rest are decimals


READ = ("0030", "0660", "06F0", "0966", "09E6", "FF10", "1D7CE", "1D7D8", "1D7E2", "1D7EC", "1D7F6")


def is_read(text):
    try:
        return bool(read_answer(text))
    except Unreadable:
        return False


def test_only_digits_of_the_scripts_that_are_listed_are_read():
    zeros = [
        code
        for code in range(sys.maxunicode)
        if unicodedata.category(chr(code)) == "Nd" and unicodedata.digit(chr(code)) == 0
    ]
    assert len(zeros) > 50
    for zero in zeros:
        text = chr(zero + 2) + chr(zero + 5)
        read = f"{zero:04X}" in READ
        assert (read_integer(text) == 25) is read, hex(zero)
        assert is_read(text) is is_read(f"{text}.{text}") is read, hex(zero)


@given(st.text(max_size=60))
def test_ascii_stays_and_reading_twice_changes_nothing(text):
    once = as_ascii(text)
    assert as_ascii(once) == once
    kept = "".join(c for c in text if c.isascii())
    assert as_ascii(kept) == kept
