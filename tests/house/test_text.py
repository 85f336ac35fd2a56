"""Hostile text made visible."""

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.errors import ConfigError
from mars_env.text import describe_error, one_line, raised, visible

ANY = st.text(st.characters(exclude_categories=[]))


@given(ANY)
def test_nothing_that_steers_a_terminal_or_reorders_text_is_left(text):
    shown = visible(text)
    shown.encode("utf-8")
    assert not [c for c in shown if unicodedata.category(c) == "Cc" and c not in "\n\t"]
    assert not [
        c
        for c in shown
        if unicodedata.bidirectional(c) in ("RLO", "LRO", "RLE", "LRE", "RLI", "LRI", "FSI", "PDI")
    ]


@given(ANY, st.integers(2, 50))
def test_one_line_is_one_short_line(text, width):
    shown = one_line(text, width)
    assert len(shown) <= width and len(shown.splitlines()) <= 1


def test_ordinary_text_is_unchanged():
    assert visible("Größe ∑\n\t√2") == "Größe ∑\n\t√2"


def test_a_sentence_of_an_error_is_bounded_and_says_at_its_end_what_to_do():
    said = str(ConfigError(f"there is no problem {'x' * 5000!r}: choose another"))
    assert (
        len(said) <= 1000
        and said.startswith("there is no problem 'xxx")
        and said.endswith(": choose another")
    )


def broken(text):
    return json.loads(text)


def test_the_last_line_of_a_user_is_shown():
    with pytest.raises(ValueError) as caught:
        broken("{")
    said = raised(caught.value)
    line = broken.__code__.co_firstlineno + 1
    assert said.startswith(describe_error(caught.value))
    assert said.endswith(f"({Path(__file__).name}, line {line}: return json.loads(text))")


def test_an_error_that_passed_no_line_of_a_user_is_described():
    error = KeyError("x")
    assert raised(error) == describe_error(error)
