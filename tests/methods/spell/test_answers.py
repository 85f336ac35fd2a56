"""SPELL's short answers: what the rule and the Verifier read, and when two are equal."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import read_rows
from spell_team import CLUSTER, played, rewards_of

from mars_env.methods.spell.answers import MOST_ANSWER, SameAnswer, comparable, read_answer
from mars_env.methods.spell.rules import read_question, spell
from mars_env.types import Action, Problem, Verdict

PASTED = (
    "\n".join(CLUSTER.metadata["documents"]),
    "\n".join(map(str, range(1, 300))),
    " ".join(map(str, range(1, 300))),
    "It was certainly not 17 million.",
    "17 or 18",
    "17 17",
)


@pytest.mark.parametrize("row", read_rows(Path(__file__).with_name("answers.jsonl")), ids=str)
def test_a_short_answer_is_the_last_line(row):
    assert read_answer(row["text"]) == row["answer"]


@given(st.text())
def test_a_short_answer_is_read_as_itself(text):
    answer = read_answer(text)
    assert len(answer) <= MOST_ANSWER and "\n" not in answer and read_answer("17 " * MOST_ANSWER) == ""
    assert comparable(read_answer(answer)) == comparable(answer)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("$1,204.50", "1204.5", True), ("17%", "17", True), ("−5", "-5", True), ("-$5", "$5", False),
        ("1.5", "15", False), (".5", "5", False), ("3/5", "3 5", False), ("17", "17 million", False),
        ("Net  Profit", "net profit", True), ("(B)", "b", True), ("(17)", "17", False),
        ("ＡＢＣ", "abc", True),
        ("0", "-0", True), ("1" * 29, "1" * 28 + "2", False), ("巴黎", "伦敦", False),
    ],
)  # fmt: skip
def test_equal_answers(one, other, equal):
    assert (comparable(one) == comparable(other)) is equal


@pytest.mark.parametrize(
    ("reference", "verdict"), [(0, "CORRECT"), (None, "UNKNOWN"), ("...", "UNKNOWN"), ("10", "WRONG")]
)
async def test_references_of_any_kind(reference, verdict):
    grade = await SameAnswer().grade(Problem("p", "?", reference), "It is\n0.")
    assert grade.verdict == verdict


@given(st.text(), st.text(min_size=1))
async def test_rule_and_verifier_read_the_same_answer(before, line):
    """What stands before the last line counts for neither."""
    text = f"{before}\nIt was 17.\n{line}"
    rules, problem = spell(grounding=False), CLUSTER
    state = rules.start(problem)
    state = rules.apply(state, Action('{"question": "Which profit?", "answer": "17"}'), None)
    grade = await SameAnswer().grade(rules.posed(state), text)
    state = rules.apply(state, Action(text), grade)
    answer = rules.observe(state, "verifier_0")["answer"]
    assert answer == read_answer(text)
    assert (grade.verdict is Verdict.CORRECT) == (comparable(answer) == 17)


def test_a_reference_is_a_short_answer():
    asked = '{"question": "Which profit?", "answer": "%s"}'
    assert read_question(asked % "Answer: 17 \\n million.").answer == "17 million"
    assert read_question(asked % ("x" * (MOST_ANSWER + 1))).fault == "long"
    assert read_question(asked % "<think>17").fault == "malformed"


@pytest.mark.parametrize("text", PASTED)
async def test_what_only_contains_the_reference_earns_nothing(text):
    tree = await played(answers=(text,), votes=lambda answer, i: "NO")
    assert rewards_of(tree)["responder"] == [0.0] * 4 and rewards_of(tree)["questioner"] == [0.0]


async def test_without_a_short_answer_there_is_nothing_to_judge():
    tree = await played(answers=("", "17"))
    assert rewards_of(tree)["responder"] == [0.0, 1.0, 0.0, 1.0]
    assert len(rewards_of(tree)["verifier"]) == 2 * 4
