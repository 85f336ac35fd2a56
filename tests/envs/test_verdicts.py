import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.envs.verdicts import Judgement, bug_report, read_judgement

PASSES = ["Correctness: Correct", "Fine.\ncorrectness: correct.", "**Correctness:** Correct"]
PASSES += ["Correctness: Wrong\nAfter a second look:\nCorrectness: Correct", "> Correctness: `Correct`  "]
FAILS = ["Correctness: Wrong", "Correctness: Correct\nCorrectness: wrong", "## Correctness: **Wrong**"]
MALFORMED = ["", "The solution is correct.", "Correctness: Incorrect", "Correctness: not correct"]
MALFORMED += ["Correctness: Correct|Wrong", "Correctness: Correct, but step 2 is wrong", "Correctness:"]
MALFORMED += ["In terms of correctness: Correct", "Correctness\n: Correct"]


@pytest.mark.parametrize("text", PASSES + FAILS + MALFORMED)
def test_verdicts(text):
    assert read_judgement(text) == Judgement(passed=text in PASSES, malformed=text in MALFORMED)


@given(st.text())
def test_any_text_is_read(text):
    judgement = read_judgement(text)
    assert not (judgement.passed and judgement.malformed)
    assert bug_report(text).strip()


def test_a_bare_verdict_still_gives_the_corrector_a_report():
    assert "gave no details" in bug_report("Correctness: Wrong")
    assert bug_report("Step 3 fails.\nCorrectness: Wrong").startswith("Step 3 fails.")
