"""Formulas as MathML: what is known is drawn, the rest stays LaTeX, no formula is markup or takes long."""

import re

import pytest
from html_page import Page
from hypothesis import given, settings
from hypothesis import strategies as st

from mars_env.viewer.mathml import MAX_ELEMENTS, MAX_FORMULA, mathml
from mars_env.viewer.prose import limited


@pytest.mark.parametrize(
    "latex",
    [
        r"\def\a{\b\b}\def\b{\c\c}\a", r"\newcommand{\a}{x}\a", r"\DeclareMathOperator{\a}{x}",
        r"\sideset{_a}{^b}{\sum}", r"\href{javascript:alert(1)}{x}", r"\style{color:red}{x}", r"\class{a}{x}",
        r"\left( x", "{" * 40 + "}" * 40, "x" * (MAX_FORMULA + 1), r"x''''''",
        r"\begin{matrix}",
    ],
)  # fmt: skip
def test_what_does_not_fit_stays_latex(latex):
    assert mathml(latex) is None


def test_texts_and_attributes_are_escaped():
    assert "<script>" not in (drawn := mathml(r"\text{<script>alert(1)</script>}"))
    assert "&lt;script&gt;" in drawn
    assert "&lt;img" in mathml(r"\text{&lt;img src=x&gt;}")
    assert "99" not in mathml(r"\hspace{99em}x") and "99" not in mathml(r"\rule{99em}{99em}")
    assert "url" not in mathml(r"\color{url(http://a)}x")


def test_brackets_grow_only_where_latex_lets_them():
    assert mathml("(x)").count('stretchy="false"') == 2
    beside_a_binomial = mathml(r"\binom{n}{k} \equiv 0 \pmod{7}")
    assert beside_a_binomial.count('stretchy="false"') == 2  # those of the modulus
    assert "false" not in mathml(r"\left(\frac12\right)") and "false" not in mathml(r"\binom{n}{k}")


def test_a_page_parses_only_so_much():
    formulas = limited(mathml, 10)
    assert formulas("x" * 6, False) and formulas("y" * 6, False) is None and formulas("z" * 4, False)
    assert formulas("x" * 6, False)  # known


def test_without_the_library_formulas_stay_latex(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "latex2mathml.converter", None)
    assert mathml("q_1") is None


PIECES = [
    r"\frac", r"\sqrt", r"\left(", r"\right)", r"\text{", r"\over", r"\begin{matrix}", r"\end{matrix}", r"\\",
    r"\not", r"\color{red}", r"\xrightarrow", r"\raise", r"\hspace", r"\genfrac", r"\root", r"\skew", r"\big",
    r"\limits", r"\sum", r"\mathbf", r"\boxed", "{", "}", "^", "_", "'", "&", "[", "]", "<", ">", '"',
    "x", "1", "$",
]  # fmt: skip


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join) | st.text(max_size=100))
def test_any_formula_is_mathml_or_nothing(latex):
    drawn = mathml(latex, True)
    if drawn is not None:
        page = Page(str(drawn))
        assert len(page.tags) <= MAX_ELEMENTS
        assert all(re.fullmatch(r"m[a-z]+|none", tag) for tag in page.tags), page.tags
        names = {name for _, name, _ in page.attributes}
        assert not names & {"href", "style", "class"} and not any(name.startswith("on") for name in names)
