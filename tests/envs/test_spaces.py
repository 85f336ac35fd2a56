from hypothesis import given
from hypothesis import strategies as st
from messages import raises

from mars_env.envs.spaces import UnicodeText


@given(st.text(st.characters()))
def test_any_text_is_in_the_space(text):
    assert text in UnicodeText()


def test_what_is_no_text_or_too_long_is_not():
    space = UnicodeText(max_chars=3)
    assert "abcd" not in space and b"a" not in space and None not in space and 3 not in space


def test_samples_are_seeded_and_in_the_space():
    first, second = UnicodeText(seed=3), UnicodeText(seed=3)
    samples = [first.sample() for _ in range(50)]
    assert samples == [second.sample() for _ in range(50)]
    assert len(set(samples)) > 40
    assert all(sample in first for sample in samples)


def test_masks_are_refused():
    with raises(ValueError):
        UnicodeText().sample(mask=1)
