"""A model's text as HTML: which parts are formulas or programs, and that nothing of it is lost or markup."""

import re
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mars_env.viewer.prose import prose


def formulas(text):
    return [unescape(title) for title in re.findall(r'class="math[^"]*" title="([^"]*)"', str(prose(text)))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Let $x$ and $$y^2$$.", ["$x$", "$$y^2$$"]),
        (r"\(a\) and \[b\]", [r"\(a\)", r"\[b\]"]),
        (r"so \boxed{\frac{1}{2}}.", [r"\boxed{\frac{1}{2}}"]),
        ("\\begin{align*}a&=b\\\\\nc&=d\\end{align*}", ["\\begin{align*}a&=b\\\\\nc&=d\\end{align*}"]),
        ("It costs $5 or $6 a day.", []),
        ("US$5 and US$6", []),
        ("a $ b $ c", []),
        (r"a literal \$x\$", []),
        (r"\boxed{never closed", []),
        (r"\boxed{}", []),
        ("an open $x", []),
        ("$x$5 is no formula, $y$ is", ["$y$"]),
    ],
)
def test_which_parts_are_formulas(text, found):
    assert formulas(text) == found


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("```brainf\nx = 1", '<code class="program">x = 1</code>'),  # not closed
        ('```html" onclick="x\n<b>\n```', '<code class="program">&lt;b&gt;</code>'),
    ],
)
def test_programs_that_are_plain(text, html):
    assert str(prose(text)) == html


def test_programs_have_colours_and_formulas_in_them_are_none():
    html = str(prose("See:\n```python\nreturn '$x$'  # <b>\n```\nand ~~~ is nothing, $y$."))
    assert '<span class="k">return</span>' in html and "&lt;b&gt;" in html
    assert html.count("<math") == 1 and "```" not in html


def test_no_empty_line_follows_a_formula_in_a_line_of_its_own():
    html = str(prose("So\n\\[x\\]\nis $y$\nhere"))
    assert re.sub(r"<span.*?</span>", "F", html, flags=re.DOTALL) == "So\nFis F\nhere"


MARKS = [*'$\nx}" 5', "$$", "\\[", "\\]", "\\(", "\\)", "```", "~~~", "<b>", "\\boxed{"]
TEXTS = st.lists(st.sampled_from(MARKS) | st.text(max_size=4), max_size=40).map("".join)


@settings(max_examples=300)
@given(TEXTS)
def test_no_text_becomes_markup_or_is_lost(text):
    html = str(prose(text))
    html = re.sub(
        r'<span class="math[^"]*" title="([^"]*)">.*?</math>(\n?)</span>', r"\1\2", html, flags=re.DOTALL
    )
    spans = re.findall(r'<span class="\w+">', html)
    assert set(re.findall(r"<[^>]*>", html)) <= {'<code class="program">', "</code>", "</span>", *spans}
    seen = unescape(re.sub(r"<[^>]*>", "", html))
    if "`" not in text and "~" not in text:
        assert seen == text
