from hypothesis import given
from hypothesis import strategies as st

from mars_env.grading.math.judge import without_label
from mars_env.grading.math.spelled import date, in_digits, spelled_number

ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
WORDS = [*ONES, *TENS[2:], "hundred", "thousand", "and", "half", "minus"]


def spell(value: int) -> str:
    for size, name in ((10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if value >= size:
            return f"{spell(value // size)} {name}" + (f" {spell(value % size)}" if value % size else "")
    if value < 20:
        return ONES[value]
    return TENS[value // 10] + (f" {ONES[value % 10]}" if value % 10 else "")


@given(st.integers(0, 999_999_999))
def test_numbers_in_words(value):
    assert spelled_number(spell(value)) == value
    assert in_digits(rf"\text{{{spell(value)}}}") == str(value)


@given(st.lists(st.sampled_from(WORDS), max_size=8))
def test_other_words(said):
    value = spelled_number(" ".join(said))
    if value is not None and value.denominator == 1 and value >= 0 and "and" not in said:
        assert spell(int(value)) == " ".join(said) or said[0] in ("hundred", "thousand", "minus")


def test_ordinals():
    assert in_digits(r"21^{\text{st}}") == in_digits(r"21\text{st}") == in_digits("21^{st}") == "21"
    assert in_digits("21st") == "21st" and in_digits("21^{s}") == "21^{s}"


@given(st.text(alphabet=st.sampled_from(list("(ABC) 12.:\\\\{}$-theansweri是答案")), max_size=60))
def test_labels_only_shorten(text):
    assert len(without_label("7", text)) <= len(text)


def test_parts():
    for words, value in (("one third", "1/3"), ("two thirds", "2/3"), ("two halves", "1"), ("half", "1/2")):
        assert str(spelled_number(words)) == value
    for words in ("two third", "two half", "one thirds", "zero halves", "and two", "two and", "and"):
        assert spelled_number(words) is None


def test_dates():
    assert date("4th of July") == date("July 4") == date("jul 4") == {"month": "jul", "day": "4"}
    assert date("July 4, 1776")["year"] == "1776" and date("Monday, 4 July")["weekday"] == "monday"
    assert not date("4 July or 5 July") and not date("May") and not date("x" * 100)
