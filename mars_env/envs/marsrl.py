"""Solve, verify, correct: the game of MarsRL (arXiv 2511.11373)."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import NonNegativeInt, PositiveInt

from mars_env.envs.game_function import game
from mars_env.envs.rewards import MARSRL_REWARDS
from mars_env.envs.rules import Play, ask
from mars_env.envs.search_graders import public_grader
from mars_env.envs.verdicts import bug_report, read_judgement
from mars_env.envs.visibility import Visibility
from mars_env.errors import ConfigError
from mars_env.types import Problem

SOLVER, VERIFIER = "solver_0", "verifier_0"

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "inference": {},
    "training": {"rounds": 2, "accept_after": 1, "ends_with": "corrector"},
}
"""The paper's inference loop, of at most 11 verifications; its training chain S, V, C, V, C, which a Verifier
that accepts ends."""


def public_results(settings: Any, kind: str) -> Visibility | None:
    """Feedback by public tests, if it is asked for: from a grader that is given no others."""
    if not settings.public_feedback:
        return None
    if kind != "code":
        raise ConfigError(f"public_feedback= needs public tests, which problems of {kind} do not have")
    return Visibility("public", public_grader("all"), selection=None)


def verdict(text: str) -> dict[str, Any]:
    """A Verifier's verdict as it is recorded; one that cannot be read counts as Wrong."""
    judgement = read_judgement(text)
    return {"verdict": "Correct" if judgement.passed else "Wrong", "malformed": judgement.malformed}


@game(
    max_turns=lambda settings: 1 + 2 * settings.rounds + (settings.ends_with == "verifier"),
    roles={name: f"mars_env.agents:{name.title()}" for name in ("solver", "verifier", "corrector")},
    fields={
        "solver": ["problem"],
        "verifier": ["problem", "solution", "truncated", "feedback"],
        "corrector": ["problem", "solution", "truncated", "report"],
    },
    rewards=MARSRL_REWARDS,
    presets=PRESETS,
    visibility=public_results,
)
def solve_verify_correct(
    problem: Problem,
    *,
    rounds: NonNegativeInt = 10,
    accept_after: PositiveInt = 4,
    give_up_after: PositiveInt = 10,
    ends_with: Literal["verifier", "corrector"] = "verifier",
    public_feedback: bool = False,
) -> Play:
    """A Solver writes a solution; a Verifier judges it; a Corrector rewrites what was judged wrong.

    Args:
        problem: What is solved.
        rounds: The most rounds of (correct; verify) after the first verification. If a Corrector ends the
            chain, of (verify; correct).
        accept_after: Verdicts "Correct" in a row that accept a solution.
        give_up_after: Verdicts "Wrong" in a row that end the episode.
        ends_with: Whether the last correction is verified, or is the answer.
        public_feedback: Whether the Verifier reads the results of a program's public tests.
    """
    verifications = rounds + (ends_with == "verifier")
    solution = yield ask("solver", problem=problem.statement)
    solutions, passes, failures = [solution], [0], 0
    for verification in range(1, verifications + 1):
        attempt: dict[str, Any] = {
            "problem": problem.statement,
            "solution": solution.text,
            "truncated": solution.truncated,
        }
        report = yield ask("verifier", **attempt, feedback=solution.feedback, graded=False, parse=verdict)
        if report.info["verdict"] == "Correct":
            passes[-1], failures = passes[-1] + 1, 0
            if passes[-1] == accept_after:
                return solution
            continue
        failures += 1
        is_last = verification == verifications
        if failures == give_up_after or (is_last and ends_with == "verifier"):
            break
        solution = yield ask("corrector", **attempt, report=bug_report(report.text))
        if is_last:
            return solution
        solutions.append(solution)
        passes.append(0)
    return solutions[passes.index(max(passes))]  # the one accepted most often, the earliest of equals
