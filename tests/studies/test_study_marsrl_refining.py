"""The control of the first MarsRL study: its rows are the plan's, and its page is made of rows."""

import asyncio
import re
from dataclasses import replace

import pytest
from messages import raises
from turns import turn

import studies.marsrl_refining.study as study
from mars_env import load_problems
from mars_env.envs import Game, Solve, SolveVerifyCorrect
from mars_env.envs.solve_verify_correct import Schedule
from mars_env.errors import ConfigError
from mars_env.grading import grader_for
from mars_env.miniature import protocol
from mars_env.rollout import Job, collect
from mars_env.types import Completion, Grade, Problem, Tree
from studies.marsrl_refining.study import RefiningSolver, at_budget


def test_the_plan_names_the_arms_and_the_team_has_a_row_of_every_seed():
    plan = study.STUDY.plan.read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([^`]+)` \|", plan, re.MULTILINE)) == set(study.ARMS)
    assert {row.seed for row in study.team_rows()} >= set(range(5))
    assert all(study.budget_of(seed) > 39 for seed in range(5))
    with raises(ConfigError):
        study.budget_of(77)


def test_the_team_that_may_correct_more_often_begins_as_that_of_the_first_study():
    first = {row.seed: row.figures for row in study.team_rows()}
    for row in study.STUDY.rows():
        if row.arm == study.LONGER:
            assert row.detail["by_correction"][3] == pytest.approx(first[row.seed][study.LAST])
            assert row.detail["tokens_by_correction"][3] == pytest.approx(first[row.seed][study.TOKENS])


def chain(*turns):
    """An episode of such turns: agent, tokens, and whether it is right or what a Verifier says."""
    made = []
    for i, (agent, tokens, found) in enumerate(turns):
        judged = {"info": {"verdict": "Correct" if found else "Wrong"}}
        graded = {"grade": Grade.correct() if found else Grade.wrong("")}
        more = judged if agent == "verifier_0" else graded
        completion = Completion("", completion_tokens=tokens)
        made.append(turn("0" + ".0" * i, None, completion, agent=agent, tree="p#0", **more))
    return Tree("p#0", Problem("p", "What?", "1"), tuple(made))


def test_an_episode_with_fewer_corrections_is_the_beginning_of_the_same():
    rules = SolveVerifyCorrect(Schedule(rounds=3, accept_after=1))
    repaired = chain(
        ("solver_0", 10, False), ("verifier_0", 5, False), ("corrector_0", 7, True), ("verifier_0", 4, True)
    )
    accepted = chain(("solver_0", 20, True), ("verifier_0", 6, True))
    right, tokens = study.by_correction([repaired, accepted], rules)
    assert right == [0.5, 1.0, 1.0, 1.0]
    assert tokens == [(15 + 26) / 2] + [(26 + 26) / 2] * 3


class Slow:
    """Reaches the answer in its third turn; each turn has ten tokens."""

    name = "slow"

    def __init__(self):
        self.asked = []

    async def complete(self, prompt, n, sampling):
        self.asked.append(prompt)
        _, _, read = prompt.partition(protocol.SOLVE)
        seen = protocol.flip(read.removesuffix(protocol.VERIFY + protocol.CORRECT))
        number = int(seen[7:10]) + 1 if read else 0
        return [Completion(protocol.flip(f"\\boxed{{{number:03d}}}"), "stop", completion_tokens=10)]


@pytest.mark.parametrize(
    ("budget", "turns", "accuracy"), [(5, 1, 0.0), (10, 1, 0.0), (21, 3, 1.0), (90, 4, 0.0)]
)
def test_the_turns_that_the_budget_pays_for_count(budget, turns, accuracy):
    problem = replace(load_problems("arithmetic", n=1, seed=0)[0], reference="2")
    model = Slow()
    game = Game(Solve(revisions=3), grader_for("math"))
    trees = asyncio.run(collect(game, {"solver_0": RefiningSolver(model)}, [Job(problem)], seed=0))
    found = at_budget(trees, budget)
    assert (found.turns, found.last, found.first) == (turns, accuracy, 0.0)
    assert found.tokens == 10 * turns and found.by_turn == (0.0, 0.0, 1.0, 0.0)
    assert len(model.asked) == 4 and protocol.CORRECT not in model.asked[0]
