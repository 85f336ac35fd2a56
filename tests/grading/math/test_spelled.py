from hypothesis import example, given
from hypothesis import strategies as st

from mars_env.grading.math.spelled import date, in_digits, spelled_number

ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def spell(value: int) -> str:
    for size, name in ((10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if value >= size:
            rest = f" {spell(value % size)}" if value % size else ""
            return f"{spell(value // size)} {name}{rest}"
    if value < 20:
        return ONES[value]
    return TENS[value // 10] + (f" {ONES[value % 10]}" if value % 10 else "")


@given(st.integers(0, 999_999_999))
def test_every_number_in_words_is_read(value):
    assert spelled_number(spell(value)) == value
    assert in_digits(rf"\text{{{spell(value)}}}") == str(value)


@given(
    st.lists(st.sampled_from([*ONES, *TENS[2:], "hundred", "thousand", "and", "half", "minus"]), max_size=8)
)
@example(["two", "half"])
def test_words_are_a_number_only_where_they_are_spelled_so(said):
    value = spelled_number(" ".join(said))
    if value is not None and value.denominator == 1 and value >= 0 and "and" not in said and "a" not in said:
        again = spell(int(value))
        assert again == " ".join(said) or said[0] in ("hundred", "thousand", "minus")


@given(st.integers(1, 5000))
def test_an_ordinal_needs_its_own_ending(value):
    endings = [
        end for end in ("st", "nd", "rd", "th") if in_digits(rf"{value}^{{\text{{{end}}}}}") == str(value)
    ]
    last = value % 100
    expected = "th" if 10 <= last <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    assert endings == [expected]


def test_dates():
    assert date("4th of July") == date("July 4") == date("jul 4") == (7, 4, None, None)
    assert date("July 4, 1776") == (7, 4, 1776, None) and date("Monday, 4 July") == (7, 4, None, "mon")
    assert date("July 4").agrees(date("Monday, 4 July")) and not date("Monday, 4 July").agrees(date("July 4"))
    assert date("4 July or 5 July") is None and date("May") is None and date("x" * 100) is None


def test_parts_are_one_or_several():
    assert [str(spelled_number(t)) for t in ("one third", "two thirds", "two halves", "half")] == [
        "1/3",
        "2/3",
        "1",
        "1/2",
    ]
    assert [spelled_number(t) for t in ("two third", "two half", "one thirds", "zero halves")] == [None] * 4
