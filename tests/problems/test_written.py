"""Made sets on disk: exact again, unknown references stay unknown, and nothing is called wrong for them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mars_env
from mars_env import load_problems
from mars_env.errors import ConfigError, ProblemError
from mars_env.grading import grade
from mars_env.problems import ProblemSet, write_problems
from mars_env.problems.written import parse_problem, problem_row
from mars_env.types import Problem, Verdict

VOTE = {"by": "majority", "voter": "teacher", "voters": 8, "votes": {"7": 5, "3": 3}, "agreement": 0.625}
PROVENANCE = {"concepts": ["primes", "π"], "rationale": "First\nthen\u2028so.", "reference": VOTE}
TESTS = {"form": "stdin", "tests": [{"input": "1\n", "output": "2\n", "public": False}]}


def made():
    known, other = {"provenance": PROVENANCE}, {"provenance": {}, "level": 3, "nested": [1, [None]]}
    problems = [
        Problem("made/0", " What is 3 + 4? ", "7", metadata=known),
        Problem("made/1", "What is $x$?", None, metadata=other),
        Problem("made/2", "Double the \ud800 input, é.", TESTS, "code", known),
    ]
    about = {"revision": "seed 3", "licence": "MIT", "notes": "made by models"}
    return ProblemSet("made by us", problems, **about)


def test_a_written_set_is_read_as_it_was(tmp_path):
    path = tmp_path / "made.jsonl"
    write_problems(path, made())
    again = load_problems(path)
    assert list(again) == list(made())
    assert again.manifest() == made().manifest()
    write_problems(tmp_path / "again.jsonl", again)
    assert (tmp_path / "again.jsonl").read_bytes() == path.read_bytes()


def test_a_generated_set_stays_one_and_its_references_are_checked(tmp_path):
    path = tmp_path / "made.jsonl"
    write_problems(path, load_problems("aime", n=3))
    again = mars_env.load_problems(path)
    assert again.generated and list(again) == list(load_problems("aime", n=3))
    report = mars_env.evaluate("aime-solve", problems=again, agents=lambda o: r"\boxed{7}")
    assert report.set_name == "aime (generated, AIME-style)"
    path.write_text(
        path.read_text()
        + '{"id": "a", "problem": "?", "answer": "9^(9^(9^9))", "kind": "math", "metadata": {}}\n'
    )
    with pytest.raises(ProblemError):
        mars_env.load_problems(path)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 2**53) | st.floats(-9, 9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.text(min_size=1).filter(str.strip), plain, st.dictionaries(st.text(), plain, max_size=3))
def test_any_plain_problem_survives_a_line_of_json(statement, reference, metadata):
    problem = Problem("p", statement, reference, "math", metadata)
    assert parse_problem(json.loads(json.dumps(problem_row(problem)))) == problem


async def test_an_unknown_reference_is_never_graded_wrong(tmp_path):
    path = tmp_path / "made.jsonl"
    write_problems(path, made())
    problems = mars_env.load_problems(path)  # with the check of references
    unknown = problems.by_id("made/1")
    for text in (r"\boxed{7}", "", "I do not know."):
        assert grade(unknown, text).verdict is Verdict.UNKNOWN
        env = mars_env.make("arithmetic-solve", problems=[unknown])
        assert not env.game.can_grade(unknown)
        env.reset(seed=0)
        env.step(text)
        assert env.tree.turns[0].grade is None or env.tree.turns[0].grade.verdict is Verdict.UNKNOWN
        assert env.tree.turns[0].reward is None
    with pytest.raises(ConfigError):
        mars_env.evaluate("arithmetic-solve", problems=problems[:2], agents=lambda o: r"\boxed{7}")
