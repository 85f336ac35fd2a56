"""Python files beside the run files of examples/openrlhf: own rules, agents and rewards; roles."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest

import mars_env
from mars_env.envs import GroupedSettings, grouped
from mars_env.models.scripted import ScriptedModel
from mars_env.rollout import Job, collect, groups_of
from mars_env.testing import check_game
from mars_env.trainers.advantages import group_normalised
from mars_env.trainers.assembly import POLICY, agents_by_name
from mars_env.trainers.run_file import load_run
from mars_env.types import Action, Grade, Problem, Turn

EXAMPLES = Path(__file__).parents[2] / "examples" / "openrlhf"
PROBLEM = Problem("p", "What is 2 + 2?", "4")


@pytest.fixture(autouse=True)
def beside_the_settings(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))


@pytest.fixture
def calibration():
    return importlib.import_module("calibration")


def test_the_game_keeps_the_contract(calibration):
    check_game(calibration.assessed, PROBLEM)


@pytest.mark.parametrize(
    ("grade", "stated", "reward"),
    [
        (Grade.correct(), 0.7, 0.91),
        (Grade.wrong("no"), 0.7, 0.51),
        (Grade.wrong("no"), None, 0.0),
        (Grade.unknown("lost"), 0.7, None),
    ],
)
def test_assessments_are_rewarded_by_briers_score(calibration, grade, stated, reward):
    solution = Turn("t", "0", None, "g", "solver_0", "", "p", Action("4"), grade)
    assessment = Turn("t", "0.0", "0", "g", "assessor_0", "", "p", Action(""), info={"probability": stated})
    assert calibration.brier(assessment, [solution], PROBLEM) == pytest.approx(reward)


async def test_a_team_on_one_model_plays_in_groups(calibration):
    """As custom_environment.toml trains it: both rewards vary within groups, so both agents can learn."""
    answers = iter(range(10_000))

    def answer(prompt, sample, seed):
        if "How likely" in str(prompt):
            return f"Probability: {(next(answers) * 30) % 100}%"
        return rf"\boxed{{{next(answers) % 2 * 2 + 2}}}"

    run, env = (
        load_run(EXAMPLES / "custom_environment.toml"),
        mars_env.make("calibration:arithmetic-assessed"),
    )
    models = {POLICY: ScriptedModel(answer, name=POLICY)}
    team = agents_by_name(run, env.game.rules, models)
    assert {agent.policy for agent in team.values()} == {POLICY}
    game = replace(env.game, grower=grouped(GroupedSettings(group=4, branches=2, sampling="balanced")))
    [tree] = await collect(game, team, [Job(PROBLEM)], seed=0, concurrency=1)
    groups = groups_of([tree])
    assert [(g.turns[0].role, len(g.turns)) for g in groups] == [
        ("solver", 4),
        ("assessor", 4),
        ("assessor", 4),
    ]
    judged = {turn.parent_id for group in groups[1:] for turn in group.turns}
    grades = {turn.id: turn.reward for turn in groups[0].turns}
    assert {grades[id] for id in judged} == {0.0, 1.0}, "balanced: one right and one wrong solution"
    assert len(group_normalised(groups)) == 12
