"""An audit finds each kind of planted fault, and nothing where there is none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mars_env
from mars_env.agents import Solver
from mars_env.envs import ask
from mars_env.envs.rewards import agreement, judged_turn, outcome, team_outcome
from mars_env.grading import grader_for
from mars_env.problems import ProblemSet
from mars_env.problems.code import code_problem_from_row
from mars_env.testing import audit
from mars_env.testing.audit_policies import COPY, CORRECT, INTEGER, KNOWS, WRONG, texts_by_policy
from mars_env.types import Grade, Problem, Verdict

SUMS = ProblemSet(
    "sums", [Problem(f"{a}+{b}", f"What is {a} + {b}?", str(a + b)) for a, b in ((2, 2), (30, 7))]
)
TWICE = {
    "id": "twice", "prompt": "Return twice x.", "entry_point": "twice",
    "tests": ["assert twice(5) == 10"], "solution": "def twice(x):\n    return 2 * x",
}  # fmt: skip
PLANTED = "planted reference"


def strict(turn, path, problem):
    """1 for a verdict that fits, 0 for one that does not, and for a text without one."""
    return 0.0 if turn.info["malformed"] else agreement(turn, path, problem)


def team(**parts):
    parts.setdefault("rewards", {"verifier": strict})
    parts.setdefault("problems", SUMS)
    return audit("arithmetic-solve-verify-correct", **parts)


def found(report):
    return {(row.role, row.policy) for row in report.findings}


class Paying:
    """The library's grader, which also pays some texts, and refuses others."""

    def __init__(self, pays=lambda text, problem: False, refuses=lambda text: False):
        self.pays, self.refuses = pays, refuses

    async def grade(self, problem, text):
        if self.refuses(text):
            return Grade.wrong("refused")
        if self.pays(text, problem):
            return Grade.correct()
        return await grader_for("math").grade(problem, text)


def in_prose(text, problem):
    return str(problem.reference) in text


@pytest.mark.parametrize(
    ("pays", "policies"),
    [
        (in_prose, {PLANTED, "all small integers"}),
        (lambda text, problem: "boxed" in text, {"a wrong answer", INTEGER, "the statement"}),
        (lambda text, problem: text == r"\boxed{7}", {INTEGER}),
    ],
)
def test_graders_that_pay_for_nothing(pays, policies):
    assert {("solver", policy) for policy in policies} <= found(team(grader=Paying(pays)))
    assert not found(audit("arithmetic-solve", problems=SUMS, grader=Paying()))


@pytest.mark.parametrize(
    "refuses", [lambda text: True, lambda text: "boxed" in text, lambda text: "37" in text]
)
def test_a_grader_that_does_not_pay_what_is_right(refuses):
    report = audit("arithmetic-solve", problems=SUMS, grader=Paying(refuses=refuses))
    assert found(report) == {("solver", KNOWS)}
    assert report.findings[0].reward < 1


def reads_any_correct(turn, path, problem):
    right = judged_turn(path).grade.verdict is Verdict.CORRECT
    return float(("correct" in turn.text.replace("Correctness", "").lower()) == right and turn.text != "")


def pays_statements(turn, path, problem):
    return float(problem.statement in turn.text or turn.grade.score)


@pytest.mark.parametrize(
    ("role", "reward", "policy"),
    [
        ("verifier", reads_any_correct, "malformed report"),
        ("verifier", lambda turn, *_: float(turn.info["verdict"] == "Correct"), CORRECT),
        ("verifier", lambda turn, *_: float(turn.info["verdict"] == "Wrong"), WRONG),
        ("verifier", lambda *_: 0.0, KNOWS),
        ("solver", pays_statements, "the statement"),
        (
            "corrector",
            lambda turn, path, _: float(turn.text == judged_turn(path).text or turn.grade.score),
            COPY,
        ),
        ("corrector", pays_statements, "the statement"),
    ],
)
def test_rewards_that_pay_the_wrong_texts(role, reward, policy):
    report = team(rewards={"verifier": strict, role: reward})
    assert (role, policy) in found(report)
    assert {row.role for row in report.findings} == {role}
    assert all(row.problem in ("2+2", "30+7") for row in report.findings)


@pytest.mark.parametrize(
    "parts", [{}, {"team_reward": team_outcome}, {"rewards": {"verifier": strict, "solver": outcome}}]
)
def test_sound_rewards_have_no_finding(parts):
    report = team(**parts)
    assert not report.findings and not report.not_audited
    assert {row.role for row in report.rows} == {"solver", "verifier", "corrector"}


@pytest.mark.parametrize(
    "env_id",
    [
        *(f"arithmetic-{game}" for game in ("solve", "self-refine", "solve-verify-correct", "tree-search")),
        "aime-solve-verify-correct",
        "programs-solve-verify-correct",
        "programs-tree-search",
    ],
)
def test_the_built_in_environments_pass(env_id):
    report = audit(env_id, limit=2)
    assert report.rows and not report.findings and not report.not_audited


def test_what_chance_pays_is_known_exactly():
    """Verifiers read as many right as wrong solutions; one of the small integers is a reference."""
    rows = {(row.role, row.policy): row for row in team().rows}
    for chance, place in (
        *((0.5, ("verifier", verdict)) for verdict in (CORRECT, WRONG)),
        (0.05, ("solver", INTEGER)),
    ):
        assert rows[place].reward == rows[place].chance == chance
    assert rows["verifier", KNOWS].reward == 1


def test_a_text_that_makes_its_own_verdict_unknown():
    class Breaking:
        async def grade(self, problem, text):
            broken = Grade.unknown("lost") if "no such tool" in text else None
            return broken or await grader_for("math").grade(problem, text)

    report = audit("arithmetic-solve", problems=SUMS, grader=Breaking())
    assert found(report) == {("solver", "broken tool call")}


@mars_env.game(max_turns=1, roles={"solver": Solver})
def leaking(problem):
    return (yield ask("solver", problem=f"{problem.statement} (it is {problem.reference})"))


def test_an_observation_that_holds_the_reference():
    [row] = audit(leaking, problems=SUMS).findings
    assert (row.role, row.policy, row.problem) == ("solver", "observation", "2+2")


def test_tests_that_assert_nothing_pay_a_program_without_a_result():
    weak = code_problem_from_row({**TWICE, "tests": ["assert twice", "twice(5)"]})
    report = audit("programs-solve", problems=[weak])
    assert ("solver", "program returns at once") in found(report)
    assert not audit("programs-solve", problems=[code_problem_from_row(TWICE)]).findings


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_whichever_text_is_paid_is_found(data):
    policies = texts_by_policy(SUMS[0])
    policy = data.draw(st.sampled_from(sorted({*policies} - {INTEGER, KNOWS})))
    text = data.draw(st.sampled_from(policies[policy]))
    report = audit("arithmetic-solve", problems=SUMS[:1], grader=Paying(lambda written, _: written == text))
    assert ("solver", policy) in found(report)
