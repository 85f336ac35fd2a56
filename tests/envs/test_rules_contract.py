from dataclasses import dataclass, replace

import pytest
from messages import raises

from mars_env.envs import Solve, SolveVerifyCorrect
from mars_env.envs.solve_verify_correct import INFERENCE, TRAINING, Schedule
from mars_env.testing import check_rules
from mars_env.types import Problem

PROBLEM = Problem("p", "What is 2 + 2?", "4")


@pytest.mark.parametrize(
    "rules",
    [
        SolveVerifyCorrect(INFERENCE),
        SolveVerifyCorrect(TRAINING),
        SolveVerifyCorrect(Schedule(rounds=0)),
        Solve(),
        Solve(3),
    ],
)
def test_our_rules_keep_the_contract(rules):
    check_rules(rules, PROBLEM)


@dataclass(frozen=True)
class Broken(Solve):
    fault: str = ""

    def observe(self, state, agent):
        observation = dict(super().observe(state, agent))
        if self.fault == "leak":
            observation["problem"] += f" (hint: {state.problem.reference})"
        if self.fault == "stranger":
            observation["extra"] = "x"
        if self.fault == "late grade" and state.depth == 2:
            observation["problem"] += str(state.problem.metadata)
        return observation

    def apply(self, state, action, grade):
        after = super().apply(state, action, grade)
        if self.fault == "grade" and grade is not None and grade.score == 1.0:
            return replace(after, solution="You were right.")
        if self.fault == "late grade" and state.depth == 0:
            return replace(
                after, problem=replace(after.problem, metadata={"right": getattr(grade, "score", 0.0)})
            )
        return after

    def current_agent(self, state):
        return "solver_0" if self.fault == "endless" else super().current_agent(state)

    def final(self, state):
        return 7 if self.fault == "answer" and state.depth else super().final(state)


@pytest.mark.parametrize("fault", ["leak", "stranger", "grade", "late grade", "endless", "answer"])
def test_the_contract_finds_what_is_broken(fault):
    with raises(AssertionError):
        check_rules(Broken(2, fault=fault), PROBLEM)
