"""What a problem asks for. What that says about an answer is in answers.jsonl."""

from unittest.mock import Mock

import pytest

from mars_env.grading.math import asked, question
from mars_env.grading.math.question import asked_units, is_copied, names_another


@pytest.mark.parametrize(
    ("statement", "units"),
    [
        ("A train goes 180 km in 2.5 hours. What is its speed in km/h?", ("km/h",)),
        ("How many minutes does it take?", ("minutes",)),
        ("What is the area, in square meters?", ("square meters",)),
        ("Solve for $t$ in seconds.", ("seconds",)),
        ("How many hours and minutes does it take?", ()),
        ("How many apples can be bought in 3 days?", ()),
        ("Water is sold in litres. How much does he pay?", ()),
    ],
)
def test_asked_units(statement, units):
    assert asked_units(statement) == units


@pytest.mark.parametrize(
    ("said", "about_it"),
    [
        ("the probability", True),
        ("the probability of drawing a red ball", True),
        ("the probability of drawing a red ball from 2 red and 6 blue balls", True),
        ("the probability of drawing a blue ball", False),
    ],
)
def test_a_sentence_leaves_words_out_or_adds_some_but_not_both(said, about_it):
    balls = "What is the probability of drawing a red ball from 2 red and 6 blue balls?"
    assert asked.is_asked(balls, said, sure=False) is about_it


def test_a_note_on_the_form_is_no_question():
    found = asked.question("A pool is 25 m long. What is its area? Express your answer in square meters.")
    assert found.text == "What is its area? Express your answer in square meters."
    assert "pool" in found.things and "area" in found.words
    assert asked.question("?") is None


def test_a_problem_is_read_once_for_all_its_answers_and_a_plain_number_is_not_parsed(monkeypatch):
    sentences, parse = Mock(wraps=asked._SENTENCES), Mock(wraps=question.read_answer)
    monkeypatch.setattr(asked, "_SENTENCES", sentences)
    monkeypatch.setattr(question, "read_answer", parse)
    statement = "Ann and Bob go 7 miles. Convert: how many kilometres does Ann go?"
    for value in map(str, range(1000, 1064)):
        assert not is_copied(statement, value, value)
        assert not names_another(statement, value + "=1")
    assert sentences.split.call_count == 1
    assert parse.call_count == 0
