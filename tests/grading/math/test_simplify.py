import pytest

from mars_env.grading.math.nodes import Unreadable
from mars_env.grading.math.parser import read_answer
from mars_env.grading.math.simplify import normal_text, simplified


def test_double_signs():
    assert simplified(read_answer(r"\pm 3")) == simplified(read_answer("3 or -3"))
    assert len(simplified(read_answer(r"\pm 1 \pm 2")).args) == 4
    assert len(simplified(read_answer(r"\pm 1 \mp 2")).args) == 2  # the two go together
    with pytest.raises(Unreadable):
        simplified(read_answer(r"\pm 1 \pm 2 \pm 3 \pm 4 \pm 5"))


def test_words():
    assert simplified(read_answer("twelve")) == read_answer("12")
    assert simplified(read_answer(r"\text{no solution}")) == read_answer(r"\emptyset")
    assert normal_text("The  Red-Car.") == "red car"


def test_remarks():
    assert simplified(read_answer(r"x^2 \text{ for all } x")) == read_answer("x^2")
    assert simplified(read_answer(r"x \in \{1, 2\}")) == simplified(read_answer(r"\{1, 2\}"))
