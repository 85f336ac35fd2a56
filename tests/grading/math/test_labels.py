import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.grading.math.labels import unlabelled, without_letter

ANSWERS = st.text(alphabet=st.sampled_from(list("(ABC) 12.:\\\\{}$-theansweri是答案")), max_size=60)


@given(ANSWERS)
def test_labels_take_anything_and_only_shorten(text):
    assert len(unlabelled(text)) <= len(text)
    assert len(without_letter(text)) <= len(text)


@pytest.mark.parametrize(
    "text", ["7", "x = 7", r"\text{not the answer is }7", "Optional", "(C)", "A", r"(12) 13", ""]
)
def test_what_is_no_label_stays(text):
    assert unlabelled(text) == text and without_letter(text) == text


def test_a_label_that_is_all_there_is_stays():
    assert unlabelled("The answer is") == "The answer is"
