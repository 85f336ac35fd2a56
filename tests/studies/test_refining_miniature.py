"""One agent that revises its own solution: what it reads, what it is taught, and what it is judged by."""

import asyncio
from dataclasses import replace

import pytest

from mars_env import load_problems
from mars_env.envs import Game, Solve
from mars_env.grading import grader_for
from mars_env.miniature import protocol
from mars_env.rollout import Job, collect
from mars_env.types import Completion
from studies.marsrl_refining.study import (
    RefiningSolver,
    at_budget,
)


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
