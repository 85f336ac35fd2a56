r"""The last sentence of a text, beside what its problem asks for."""

import pytest

from mars_env.grading.math.asked import is_asked, question
from mars_env.grading.math.closing import claimed, closing_value

TRAIN = "A train goes 180 miles in 3 hours. Find its average speed in mph."
PENS = "A box has 24 pens, a quarter of which are red. How many are not red?"
BOOKS = "Ali has twice as many books as Bo; together they have 30. "


@pytest.mark.parametrize(
    ("statement", "sentence", "value"),
    [
        (TRAIN, "The average speed of the train is 60 miles per hour.", "60"),
        (PENS, "There are 18 pens that are not red.", "18"),
        ("How many primes are less than 20?", "There are 8 primes less than 20.", "8"),
        ("How far does a car go in 3 hours at 50 km/h?", "The car goes 150 km in 3 hours.", r"150\text{ km}"),
        ("What was the original price of a hat?", "The original price of the hat was \\$30.", r"\$30"),
        ("Solve $x^2-5x+6=0$.", "The roots are 2 and 3.", "2 and 3"),
        ("What is $17-9$?", "17 minus 9 equals 8.", "8"),
        (BOOKS + "How many does Ali have?", "Ali has 2 × 10 = 20 books, while Bo has 10.", "20"),
        (BOOKS + "How many more books does Ali have than Bo?", "Ali has 10 more books.", "10"),
        ("Find $a_4$.", "$a_2=5$, $a_3=14$, $a_4=41$.", "41"),
        ("求函数 $f(x)=x^2-6x+12$ 的最小值。", "最小值为 $3$。", "3"),
        ("Find the center of the circle.", "The center is $(3,-4)$ and the radius is 5.", "(3,-4)"),
        # another thing, a given value, a bound, a cut, a doubt
        ("Solve $x^2-7x+6=0$.", "The discriminant is 25.", None),
        (PENS, "There are 6 red pens.", None),
        ("How many primes are less than 20?", "The number of primes is less than 9.", None),
        ("How many prime factors has 30?", "3 is a prime factor of 30.", None),
        ("How far does a car go in 3 hours?", "The car goes for 3 hours.", None),
        (TRAIN, "The average speed is 60", None),
        (TRAIN, "So the average speed may be 60.", None),
        (BOOKS + "How many does Ali have?", "Bo has 10 books.", None),
        (BOOKS + "How many more books does Ali have than Bo?", "Ali has 20 books.", None),
        ("Rita earns 20 and spends 10. How much is left?", "Rita spends 10.", None),
        ("求函数 $f(x)=x^2-6x+12$ 的最小值。", "对称轴为 $x=3$。", None),
        ("Find $a_4$.", "We must check $a_4=41$.", None),
        ("?", "In **4** years Jo will be 16.", None),
        ("?", "There are **15** (or 16).", None),
        ("?", "So n is a multiple of 25.", None),
        ("?", "The sum is 25.", None),
    ],
)
def test_what_a_sentence_claims(statement, sentence, value):
    found = closing_value(sentence, statement) if "$a_" in sentence else claimed(statement, sentence)
    assert found == value or (value == "60" and found == r"60\text{ miles per hour}")


def test_a_sentence_leaves_words_out_or_adds_some_but_not_both():
    balls = "What is the probability of drawing a red ball from 2 red and 6 blue balls?"
    for said, about_it in (
        ("the probability", True),
        ("the probability of drawing a red ball", True),
        ("the probability of drawing a red ball from 2 red and 6 blue balls", True),
        ("the probability of drawing a blue ball", False),
    ):
        assert is_asked(balls, said, sure=False) is about_it


def test_a_note_on_the_form_is_no_question():
    asked = question("A pool is 25 m long. What is its area? Express your answer in square meters.")
    assert asked.text == "What is its area? Express your answer in square meters."
    assert "pool" in asked.things and "area" in asked.words
    assert question("?") is None


@pytest.mark.parametrize(
    ("statement", "text", "value"),
    [
        ("Four scores are 78, 91, 85, 80. What is the fifth?", "The missing score is therefore 86.", "86"),
        (
            "How far is the point from the plane?",
            "$d=9/3=3.$\n\nSo the point lies at distance 3 from it.",
            "3",
        ),
        ("What is the payout?", "2.50 + 1.00 = 3.50. The organisers give $3.50.", r"\$3.50"),
        ("What is the payout?", "They give $3.50 to each.", None),  # neither concluded nor computed
        ("What is the payout?", "So they give $3.50 or $4.", None),
        ("What is the radius of the circle?", "Therefore its diameter is 5 long.", None),
        ("A bus has 5 seats. How many buses?", "So they share 5 seats.", None),
        ("男生有20人，女生有多少人?", "40-22=18。所以男生共有18人。", None),
    ],
)
def test_a_last_number(statement, text, value):
    assert closing_value(text, statement) == value
