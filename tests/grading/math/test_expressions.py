import pytest

from mars_env.grading.math.expressions import proportional, same_line
from mars_env.grading.math.nodes import Unreadable
from mars_env.grading.math.parser import read


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        *[("2x + 4y = 6", "x + 2y = 3", True), ("x + 2y = 3", "x + 2y = 4", False)],
        *[("y = 1/x", "xy = 1", True), ("x - y < 1", "y - x > -1", True), ("x - y < 1", "y - x < -1", False)],
        *[("x < y", "x \\le y", False), ("x = y", "x \\ne y", False)],
    ],
)
def test_relations_up_to_a_factor(a, b, same):
    assert proportional(read(a), read(b)) is same


def test_relations_of_other_things_are_not_compared():
    with pytest.raises(Unreadable):
        proportional(read(r"\text{red} = 1"), read("x = 1"))


def test_families_of_numbers():
    assert same_line(read(r"\pi k"), "k", read(r"\pi n + \pi"), "n", shift=True)
    assert not same_line(read(r"\pi k"), "k", read(r"\pi n + \pi"), "n", shift=False)
    assert not same_line(read(r"\pi k"), "k", read(r"2\pi n"), "n", shift=True)
    assert not same_line(read("k^2"), "k", read("n^2"), "n", shift=True)
