import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.grading.math.copied import is_copied
from mars_env.grading.math.nodes import Node
from mars_env.grading.math.parser import read_answer
from mars_env.types import Problem, Verdict

CHANGES = (
    "{}", "{} + 0", "0 + {}", "{} - 0", r"1 \cdot ({})", "({}) / 1", r"\frac{{{}}}{{1}}", "({})", "[{}]",
    "({})^1", r"\left({}\right)", "{{{}}}",
)  # fmt: skip
STATEMENTS = (
    "Simplify ${}$.",
    r"Write \({}\) in another form.",
    "We have $$f(x) = {}.$$ What is it?",
    "Simplify {}.",
)

atoms = st.sampled_from(["x", "a", "b", "2", "5", "12"])
formulas = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds("{} + {}".format, inner, inner),
        st.builds("({} - {})".format, inner, inner),
        st.builds("({})({})".format, inner, inner),
        st.builds(r"\frac{{{}}}{{{}}}".format, inner, inner),
        st.builds(r"\sqrt{{{}}}".format, inner),
        st.builds("({})^3".format, inner),
    ),
    max_leaves=6,
).filter(lambda formula: len(formula) > 3)


@given(formulas, st.sampled_from(STATEMENTS), st.lists(st.sampled_from(CHANGES), max_size=3))
def test_a_formula_behind_changes_of_no_value_is_a_copy(formula, statement, changes):
    answer = formula
    for change in changes:
        answer = change.format(answer)
    equal = Node("text", value="whatever equals the formula")
    assert is_copied(statement.format(formula), equal, read_answer(answer))
    assert is_copied(statement.format(formula), equal, read_answer(f"y = {answer}"))


@pytest.mark.parametrize(
    ("statement", "reference", "copy"),
    [
        (r"Compute $(-144) \div 9$.", "-16", r"(-144)\div 9"),
        (r"Simplify $\sqrt{242}$.", r"11\sqrt{2}", r"\sqrt{242}"),
        ("Expand $(x-1)^2$.", "x^2-2x+1", "(x-1)^2"),
        ("Factor x^2 - 1.", "(x-1)(x+1)", "x^2-1"),
        ("Solve $2x + 1 > 7$ and write $x > 3$ as an interval.", r"(3, \infty)", "x > 3"),
        ("Write the line $2x - y = 5$ in slope-intercept form.", "y = 2x-5", "2x-y=5"),
        (r"\begin{align*} f(x) &= (x+1)^2 \end{align*} Expand it.", "x^2+2x+1", "(x+1)^2"),
        (r"Reduce $\frac{6}{8}$.", r"\frac{3}{4}", r"\frac{6}{8}"),
        ("Find $x$, where $x + y = 5$ and $y = 0$.", "5", "x + y = 5"),
        ("Find $x$, where $x + y = 5$ and $y = 0$.", "5", "x = x + y = 5"),
        (r"Express $0.\overline{54}$ as a fraction.", r"\frac{6}{11}", r"0.\overline{54}"),
    ],
)
def test_copies_are_wrong(grader, statement, reference, copy):
    problem = Problem("p", statement, reference)
    for answer in (copy, f"{copy}/1"):
        assert grader.grade_sync(problem, rf"\boxed{{{answer}}}").verdict is Verdict.WRONG
    assert grader.grade_sync(problem, rf"\boxed{{{reference}}}").verdict is Verdict.CORRECT


@pytest.mark.parametrize(
    ("statement", "reference", "answer"),
    [
        ("A square has the side $x+1$. What is its area?", "x^2+2x+1", "(x+1)^2"),
        ("Which is larger for $x > 2$, $x^2$ or $x+1$?", "x^2", "x^2"),
        (
            r"Which one is a half, $\frac{2}{4}$ or $\frac{1}{2}$ or $\frac{1}{3}$?",
            r"\frac{1}{2}",
            r"\frac{2}{4}",
        ),
        ("What is greater, $0.5$ or $0.4$?", r"\frac12", "0.5"),
        ("Let $x+y=7$. Find $x+y$.", "7", "S = 7"),
        ("What is $y$ if $y = x + 1$?", "y = x + 1", "x + 1"),
        (r"Simplify $\sqrt{72}$.", r"6\sqrt2", r"\sqrt{72} = 6\sqrt2"),
    ],
)
def test_other_right_answers_are_right(grader, statement, reference, answer):
    problem = Problem("p", statement, reference)
    assert grader.grade_sync(problem, rf"\boxed{{{answer}}}").verdict is Verdict.CORRECT


@given(st.text(alphabet=st.sampled_from(list("$\\()[]{}x12+-=.^ abcfrac")), max_size=80))
def test_any_statement(statement):
    is_copied(statement, read_answer("z"), read_answer("x+1"))
