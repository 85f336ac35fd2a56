"""Decontamination by runs of words."""

from hypothesis import given
from hypothesis import strategies as st

from mars_env.problems import ProblemSet, decontaminate
from mars_env.problems.overlap import NGrams
from mars_env.types import Problem

SENTENCE = "one two three four five six seven eight nine ten eleven twelve thirteen"


def problems(*texts):
    return ProblemSet("made", [Problem(str(i), text) for i, text in enumerate(texts)], licence="MIT")


def test_thirteen_words_in_a_row_are_too_many_and_twelve_are_not():
    made = problems(f"So {SENTENCE.upper()}?", f"{SENTENCE.rpartition(' ')[0]} fourteen", "something else")
    kept, removed = decontaminate(made, problems(f"Say {SENTENCE} again."))
    assert [p.id for p in kept] == ["1", "2"] and removed == {"0": SENTENCE}
    assert (kept.name, kept.licence) == ("made", "MIT")


def test_a_short_text_is_found_as_a_whole():
    made = problems("Tell me: what is 2+2? Now!", "What is 2+3?")
    assert decontaminate(made, ["What is 2 + 2?"])[1] == {"0": "what is 2 + 2 ?"}


def test_words_of_formulas_count_and_spaces_case_and_dollars_do_not():
    made = problems(r"Let  $\frac{A}{b}$")
    assert decontaminate(made, [r"let$$\frac {a}{B} $$"], n=9)[1] == {"0": r"let \ frac { a } { b }"}


def test_several_sets_are_protected_and_nothing_protected_leaves_all():
    made = problems("a b c d", "e f g h")
    assert decontaminate(made, ["x a b c"], problems("f g h"), n=3)[1] == {"0": "a b c", "1": "f g h"}
    assert decontaminate(made, [], [""])[1] == {}


@given(
    st.lists(st.sampled_from("abc"), max_size=9),
    st.lists(st.sampled_from("abc"), max_size=9),
    st.integers(1, 4),
)
def test_what_is_found_is_a_common_run_and_no_common_run_is_missed(one, other, n):
    def runs(text):
        return {tuple(text[i : i + n]) for i in range(len(text) - n + 1)}

    found = NGrams.of([" ".join(other)], n).found_in(" ".join(one))
    if len(other) >= n:
        assert (found is not None) == bool(runs(one) & runs(other))
        assert found is None or found in runs(one) & runs(other)
