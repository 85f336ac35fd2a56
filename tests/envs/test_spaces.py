from hypothesis import given
from hypothesis import strategies as st

from mars_env.envs.spaces import UnicodeText


@given(st.text(st.characters()))
def test_any_text_is_in_the_space(text):
    assert text in UnicodeText()


def test_what_is_no_text_or_too_long_is_not():
    space = UnicodeText(max_chars=3)
    assert "abcd" not in space and b"a" not in space and None not in space and 3 not in space
