"""A Verifier that imitates itself shown the reference, which it never reads in play."""

from contextlib import aclosing

from hypothesis import given
from hypothesis import strategies as st
from turns import turn

from mars_env.agents import Solver, Verifier
from mars_env.envs import Game, GroupedSettings, solve_verify_correct
from mars_env.grading import grader_for
from mars_env.models.requests import prompt_text
from mars_env.problems import ProblemSet
from mars_env.sync import run_sync
from mars_env.trainers.config import Credit, TrainConfig, estimator_of
from mars_env.trainers.credit_rules import informed_rewards
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.rollouts import rollouts
from mars_env.trainers.team import Team
from mars_env.types import Completion, Group, Problem

REFERENCE = "4183"
PROBLEMS = ProblemSet("one", [Problem("one", "What is 89 times 47?", REFERENCE)])


class Reader:
    """Finds a text with the reference ten times as probable; it keeps what it reads to write."""

    name = "reader"

    def __init__(self, text):
        self.text, self.read = text, []

    async def complete(self, prompt, n, sampling):
        self.read.append(prompt_text(prompt))
        ids = (1, 2)
        return [Completion(self.text, "stop", ids, (3, 4), (-1.0, -1.0)) for _ in range(n)]

    async def score(self, prompt, *texts, end=True):
        assert texts == ((3, 4),) and not end
        known = REFERENCE in prompt_text(prompt)
        return Completion("", "stop", (1, 2), (3, 4), (-1.0, 0.0 if known else -2.0))


def played(**settings):
    """The first batch of a run of a Solver and a Verifier, and what the Verifier's model has read in play."""
    models = [Reader(r"\boxed{1}"), Reader("Correctness: Wrong")]
    agents = {"solver_0": Solver(models[0]), "verifier_0": Verifier(models[1])}
    game = Game(solve_verify_correct(rounds=1, ends_with="verifier", give_up_after=1), grader_for("math"))
    run = RunSettings(
        steps=1,
        problems_per_step=1,
        rollouts=GroupedSettings(group=2, branches=1),
        train=TrainConfig(**settings),
    )

    async def first():
        batches = rollouts(game, Team({**agents, "corrector_0": agents["solver_0"]}, {}), PROBLEMS, run)
        async with aclosing(batches) as due:
            return await anext(due)

    return run_sync(first()), [model.read for model in models]


def test_reports_are_scored_with_the_reference_and_written_without_it():
    batch, read = played(imitate="reference")
    turns = [turn for group in batch.groups for turn in group.turns]
    gains = {turn.role: turn.action.completions[0].informed_gain for turn in turns}
    assert gains == {"solver": None, "verifier": 2.0}
    assert all(read) and not any(REFERENCE in prompt for prompts in read for prompt in prompts)
    plain, _ = played()
    assert all(t.action.completions[0].informed_gain is None for g in plain.groups for t in g.turns)


def report(id, gain, reward=0.0):
    completion = Completion("", "stop", (1,), (2,), (-1.0,), informed_gain=gain)
    return turn(id, reward, completion, agent="verifier_0", group="reports")


@given(
    gains=st.lists(st.none() | st.floats(-9, 9), min_size=2, max_size=6).filter(any), shift=st.floats(-5, 5)
)
def test_a_verifier_earns_its_gain_whatever_its_verdict_earned(gains, shift):
    solutions = Group("solutions", (turn("8", 1.0, group="solutions"), turn("9", 0.0, group="solutions")))
    reports = Group("reports", tuple(report(str(i), gain, i * shift) for i, gain in enumerate(gains)))
    [first, second] = informed_rewards([solutions, reports])
    assert first == solutions
    assert [turn.reward for turn in second.turns] == gains
    moved = Group("reports", tuple(report(str(i), g, 1.0) for i, g in enumerate(gains)))
    credit = Credit(imitate="reference", advantage="mean_centred")
    assert estimator_of(credit)([reports]) == estimator_of(credit)([moved])
