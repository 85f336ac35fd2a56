import time

import pytest

from mars_env.grading.math.tokens import tidy, tokenize


def texts(text, **options):
    return [token.text for token in tokenize(tidy(text), **options)]


def test_nothing_of_the_text_is_dropped():
    assert texts(r"4\sqrt(2)") == ["4", r"\sqrt", "(", "2", ")"]
    assert texts(r"x ≤ 3²") == ["x", r"\le", "3", "^", "{", "2", "}"]


@pytest.mark.parametrize("word", ["integer", "constant"])
def test_long_gaps_before_remarks_take_linear_time(word):
    started = time.process_time()
    tidy(word + " " * 9_000 + "x")
    assert time.process_time() - started < 4


def test_commas_group_thousands_outside_brackets_only():
    assert texts("1,024") == ["1024"]
    assert texts("(1,024)") == ["(", "1", ",", "024", ")"]
    assert texts("1,024", commas=False) == ["1", ",", "024"]
