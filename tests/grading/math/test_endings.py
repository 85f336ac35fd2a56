"""The end of a completion without a box."""

import pytest

from mars_env.grading.math.endings import bold_sentence, clear_ending, without_aside, without_extras


@pytest.mark.parametrize(
    ("extra", "dropped"),
    [
        ("\n\nWould you like to see another way?", True),
        (" Let me know if you have questions!", True),
        ("\n\n(The others: 20 red and 25 blue (together 45).)\n\nI hope this helps!", True),
        (" (If repetition were not allowed, there would be 5,040.)", True),
        (" (It could be 16.)", False),
        (" (Alternatively, 16 are possible.)", False),
        (" (or 16)", False),
        ("\n\n(Wait, I made a mistake: it is 16.)", False),
        ("\n\nWould you believe it", False),
    ],
)
def test_offers_and_remarks_at_the_end_do_not_count(extra, dropped):
    text = "So there are **15** marbles."
    assert without_extras(text + extra) == (text if dropped else text + extra)


@pytest.mark.parametrize(
    ("sentence", "kept"),
    [
        ("It is **5/16** (about 31.25%).", "It is **5/16**."),
        ("It is $7$ cm (and its length is $14$ cm).", "It is $7$ cm."),
        ("It is **5** (or 6).", "It is **5** (or 6)."),
        ("It is **5** (and 6).", "It is **5** (and 6)."),
        ("It is **5** (which assumes that n is odd).", "It is **5** (which assumes that n is odd)."),
    ],
)
def test_a_remark_in_brackets_at_the_end_of_a_sentence(sentence, kept):
    assert without_aside(sentence) == kept


@pytest.mark.parametrize(
    ("bold", "value"),
    [
        ("The area of the garden is $180$ square metres.", "$180$ square metres"),
        ("It reaches a height of 5√3 metres (approximately 8.66 m).", "5√3"),
        ("It may reach a height of 5√3 metres.", "It may reach a height of 5√3 metres"),
        ("Does it reach a height of 5√3 metres?", "Does it reach a height of 5√3 metres?"),
        ("x² + 1", "x² + 1"),
    ],
)
def test_a_bold_sentence_states_its_value(bold, value):
    assert bold_sentence(bold) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("35 × 10 = 350.\n\nThere are 350 possible committees.", "350"),
        ("12 × 35 = 420 cents = $4.20\n\nThe pencils cost $4.20.", r"\$4.20"),
        ("35 × 10 = 350.\n\nThere are 35 possible committees.", None),
        ("35 × 10 = 350.\n\nThere are 350 possible committees", None),
        ("The gcd:\n```\ngcd(252, 198) = 18\n```", "18"),
        ("The gcd:\n```python\nx = 18\n```", None),
        ("The gcd:\n```\nx == 18\n```", None),
        ("**Solution**\n- $x = 1$\n- $y = 2$\n\nSubstituting: $1 + 2 = 3$.", "x = 1, y = 2"),
        ("**Solution**\n- $x = 1$\n- $x = 2$\n\nSubstituting: $1 + 2 = 3$.", None),
        ("**Given**\n- $x = 1$\n- $y = 2$\n\nSubstituting: $1 + 2 = 3$.", None),
        ("**36**\n\nExplanation: 24 and 12 are 36.", "36"),
        ("**36**\n\nExplanation: 24 and 12. Wait, that is wrong.", None),
    ],
)
def test_clear_endings(text, value):
    assert clear_ending(text) == value
