import pytest

from mars_env.grading.math.parser import read
from mars_env.grading.math.shapes import as_interval, assigned, is_label, is_name, items_of, progression


@pytest.mark.parametrize(
    ("text", "label", "name"),
    [
        *[("x", True, True), ("f(x)", True, True), ("(x, y)", True, True)],
        *[("m+n", True, False), ("x+y", True, False), ("2x", False, False), ("2x+3y", False, False)],
    ],
)
def test_what_names_an_answer(text, label, name):
    assert (is_label(read(text)), is_name(read(text))) == (label, name)


def test_members_of_a_collection():
    assert items_of(read("x = 1, x = 2")) == items_of(read("1, 2")) == items_of(read("x = 1, 2"))
    assert items_of(read(r"x \in \{1, 2\}")) == items_of(read("1, 2"))
    assert assigned(read("y = 2, x = 1")) == list(read("1, 2").args)
    assert assigned(read("x = 1, x = 2")) is None


def test_progressions():
    assert progression(read(r"1, 3, 5, \ldots"))[1] == 2
    assert progression(read(r"1, 3, 4, \ldots")) is None and progression(read("1, 2")) is None


def test_inequalities_as_intervals():
    assert as_interval(read("1 < x \\le 2")) == read("(1, 2]")
    assert as_interval(read("2 \\ge x > 1")) == read("(1, 2]")
    assert as_interval(read("x = 1")) is None
