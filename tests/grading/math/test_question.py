"""The last sentence of a completion, read as an answer to what the problem asks for."""

import pytest

from mars_env.grading.math.question import claimed, is_unasked

SIDE = "A rectangle has area 120. What is the length of its longer side?"


@pytest.mark.parametrize(
    ("statement", "sentence", "value"),
    [
        (SIDE, "So the longer side is 15 cm.", "15 cm"),
        (SIDE, "The longer side = 120/8 = 15", "15"),
        (SIDE, "The longer side is 15, not 16.", "15"),
        (SIDE, "The longer side is 15", None),  # a cut
        (
            "What is the area of the garden?",
            "The area of the garden is 30 square metres.",
            "30 square metres",
        ),
        ("Find the number of divisors of $360$.", "The number of divisors of 360 is 24.", "24"),
        ("Find the number of divisors of $360$.", "The number of divisors of 36 is 24.", None),
        ("Find all values of $k$.", "The values of k are 6 and -6.", "6 and -6"),
        ("Find all values of $k$.", "The values of m are 6 and -6.", None),
        ("What is the chance of a 7?", "The chance of a 7 is 1/6, or about 16.7%.", "1/6"),
        ("Find $a_5$.", "$a_4=24, a_5=48$", "a_5=48"),
        (SIDE, "The longer side is 15 or so.", None),
        (SIDE, "The longer side is not 15.", None),
        (SIDE, "The longer side may be 15.", None),
        (SIDE, "The shorter side is 15.", None),
        (SIDE, "The side of the rectangle is 15.", None),
        (SIDE, "The longer side is 15 and the length is 16.", None),
        ("Find $a_4$.", "$a_2=5$, $a_3=14$, $a_4=41$.", "a_4=41"),
        ("Find $a_4$.", "$a_4=41$ or $a_4=40$.", None),
        ("Find $a_4$.", "$a_4=41$, which contradicts $a_3=14$.", None),
        ("Find $a_4$.", "If $a_4=41$, then $a_5=122$.", None),
        ("Find $a_4$.", "$a_5=41$.", None),
        ("求 $a_4$。", "所以 $a_4=41$。", "a_4=41"),
        ("?", "The longer side is 15.", None),
    ],
)
def test_a_sentence_about_what_is_asked_states_its_value(statement, sentence, value):
    assert claimed(statement, sentence) == value


@pytest.mark.parametrize(
    ("statement", "sentence", "unasked"),
    [
        (SIDE, "The perimeter is 46.", True),
        (SIDE, "The length is 15.", False),
        (SIDE, "The answer is 15.", False),
        (SIDE, "There is no such side.", False),
        ("?", "The perimeter is 46.", False),
    ],
)
def test_a_sentence_may_be_about_something_else(statement, sentence, unasked):
    assert is_unasked(statement, sentence) is unasked
