from hypothesis import given
from hypothesis import strategies as st

from mars_env.grading.math.copied import is_copied
from mars_env.grading.math.nodes import Node
from mars_env.grading.math.parser import read_answer

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


@given(st.text(alphabet=st.sampled_from(list("$\\()[]{}x12+-=.^ abcfrac")), max_size=80))
def test_any_statement(statement):
    is_copied(statement, read_answer("z"), read_answer("x+1"))
