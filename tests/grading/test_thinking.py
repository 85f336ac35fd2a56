"""Tests of the rule that thinking is never graded."""

import pytest

from mars_env.grading.thinking import after_thinking


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("It is 4.", "It is 4."),
        ("<think>2</think>It is 4.", "It is 4."),
        ("2</think>It is 4.", "It is 4."),
        ("<think>1</think>2<think>3</think>4", "4"),
        ("<think>1</think>2<think>3", None),
        ("<think>", None),
        ("</think>", ""),
    ],
)
def test_only_what_follows_the_last_block_is_left(text, rest):
    assert after_thinking(text) == rest
