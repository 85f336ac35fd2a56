"""One agent that revises its own solution: what it reads, what it is taught, and what it is judged by."""

import asyncio
import random
import re
from dataclasses import replace

import pytest

from mars_env import load_problems
from mars_env.envs import Game, Solve
from mars_env.grading import grader_for
from mars_env.miniature import protocol
from mars_env.rollout import Job, collect
from mars_env.types import Completion
from studies.marsrl.demonstrations import Faults
from studies.marsrl_refining.refining import (
    RefiningSolver,
    at_budget,
    demonstrate_refining,
)

PLAIN = Faults(shown=(0.0, 0.5), continued=0.3)


def demonstrations(number):
    rng = random.Random(3)
    return [demonstrate_refining("corrector", rng, PLAIN) for _ in range(number)]


def test_a_revision_ends_right_from_right_and_from_wrong_solutions():
    shown_right, ended = 0, 0
    for row in demonstrations(200):
        problem, _, rest = row.prompt.partition(protocol.SOLVE)
        shown = protocol.flip(rest.removesuffix(protocol.VERIFY + protocol.CORRECT))
        start = int(protocol.flip(problem)[2:5])
        signs = {" + ": "+", " - ": "-"}
        terms = [
            (signs[sign], int(size))
            for sign, size in re.findall(r"[b-g]:( [+-] )([0-9]{2})", protocol.flip(problem))
        ]
        answer = protocol.Chain(start, tuple(terms)).values[-1]
        text = protocol.flip("".join(row.completion))
        shown_right += f"\\boxed{{{answer:03d}}}" in shown
        if protocol.END in row.completion:  # not cut off by the limit
            ended += 1
            assert f"\\boxed{{{answer:03d}}}" in text
    assert shown_right > 20 and ended > 100


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
