"""What a problem and the words after a box say about an answer."""

import pytest

from mars_env.grading.math.asked import asked_value, with_its_constant


@pytest.mark.parametrize(
    ("statement", "answer", "value"),
    [
        (r"Find $x^4+\frac{1}{x^4}$.", r"x^4 + \frac1{x^4} = 49 - 2 = 47", "49 - 2 = 47"),
        (r"Determine the value of \(2x\)", "2x=10", "10"),
        (r"Find $x^4+\frac{1}{x^4}$.", r"x^2+\frac1{x^2}=7", r"x^2+\frac1{x^2}=7"),
        ("Find $x$ if $2x=10$.", "2x=10", "2x=10"),
        ("Find $2x$ and $3x$.", "2x=", "2x="),
        ("Find $2x$.", "2x <= 10", "2x <= 10"),
    ],
)
def test_the_left_side_may_be_what_is_asked_for(statement, answer, value):
    assert asked_value(statement, answer) == value


@pytest.mark.parametrize(
    ("after", "reference", "declared"),
    [
        ("$$\n\nwhere $A$ is an arbitrary real constant.", "y=Cx", True),
        (", where A is any constant", "y=Cx", True),
        (", where $A$ is an arbitrary constant greater than 1.", "y=Cx", False),
        (", where $B$ is an arbitrary constant.", "y=Cx", False),
        (", where $A$ is an arbitrary constant.", "y=Ax", False),
        (". It is arbitrary.", "y=Cx", False),
    ],
)
def test_words_after_an_answer_may_call_its_constant_arbitrary(after, reference, declared):
    answer = with_its_constant(rf"Hence $\boxed{{y=Ax}}{after}", "y=Ax", reference)
    assert answer == (r"y=Ax,\ A\in\mathbb{R}" if declared else "y=Ax")
