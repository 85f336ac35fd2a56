"""Hostile text made visible."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from mars_env.errors import ConfigError
from mars_env.text import one_line, visible

ANY = st.text(st.characters(exclude_categories=[]))


@given(ANY)
def test_nothing_that_steers_a_terminal_or_reorders_text_is_left(text):
    shown = visible(text)
    shown.encode("utf-8")
    assert not [c for c in shown if unicodedata.category(c) == "Cc" and c not in "\n\t"]
    steering = {"RLO", "LRO", "RLE", "LRE", "RLI", "LRI", "FSI", "PDI"}
    assert not steering & {unicodedata.bidirectional(c) for c in shown}


@given(ANY, st.integers(2, 50))
def test_one_line_is_one_short_line(text, width):
    shown = one_line(text, width)
    assert len(shown) <= width and len(shown.splitlines()) <= 1


def test_a_sentence_of_an_error_is_bounded_and_says_at_its_end_what_to_do():
    said = str(ConfigError(f"there is no problem {'x' * 5000!r}: choose another"))
    assert len(said) <= 1000
    assert said.startswith("there is no problem 'xxx") and said.endswith(": choose another")
