"""The miniature under a context that is too small: refused, or its cut turns are counted and left out."""

import pytest
import torch
from messages import raises

from mars_env import load_problems
from mars_env.envs import Game, GroupedSettings, SolveVerifyCorrect
from mars_env.envs.solve_verify_correct import TRAINING
from mars_env.errors import ConfigError
from mars_env.grading import grader_for
from mars_env.miniature import load
from mars_env.miniature.agents import LIMITS, MiniatureAgent
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.local import LocalTrainer, Policy
from mars_env.trainers.loop import train
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.team import Team
from mars_env.types import Verdict

SMALL = 45
"""A context that leaves Solver and Verifier less room than their limits, or none at all."""


def game():
    return Game(SolveVerifyCorrect(TRAINING), grader_for("math"))


def team(model, overflow):
    return {f"{role}_0": MiniatureAgent(role, model, overflow=overflow) for role in LIMITS}


def problems():
    return load_problems("arithmetic", seed=0, split="train")


def settings():
    return RunSettings(
        steps=1,
        problems_per_step=8,
        rollouts=GroupedSettings(group=6, branches=1),
        train=TrainConfig(learning_rate=1e-4, token_budget=4096),
    )


async def trained(model, overflow):
    players = Team(team(model, overflow), {"miniature": Policy(model.module, model.tokenizer)})
    return await train(game(), players, problems(), settings())


@pytest.mark.parametrize("overflow", ["check", "refuse"])
async def test_the_run_is_refused_before_it_starts_and_says_the_numbers(overflow):
    model = load(context=SMALL)
    with raises(ConfigError):
        await trained(model, overflow)


async def test_what_the_context_cuts_off_is_counted_by_role_and_not_trained(monkeypatch):
    torch.set_num_threads(1)
    seen = []
    step = LocalTrainer.step

    def spied(trainer, groups):
        seen.extend(turn for group in groups for turn in group.turns)
        return step(trainer, groups)

    monkeypatch.setattr(LocalTrainer, "step", spied)
    [metrics] = await trained(load(context=SMALL), "unknown")
    cut = [turn for turn in seen if turn.action.interrupted]
    assert cut  # the case occurs
    assert all(turn.reward is None for turn in cut)
    assert all(turn.grade is None or turn.grade.verdict is Verdict.UNKNOWN for turn in cut)
    by_role = {role: sum(turn.role == role for turn in cut) for role in LIMITS}
    assert {r: t.get("interrupted", 0.0) for r, t in metrics.roles.items()} == {
        role: float(by_role[role]) for role in metrics.roles
    }
    assert metrics.flat()["role/verifier/interrupted"] == by_role["verifier"] > 0
    assert metrics.roles["solver"]["truncated"] < 1  # the others' limits are still their own
    known = sum(turn.reward is not None for turn in seen)
    assert metrics.advantages.unknown >= len(cut)
    assert metrics.advantages.kept <= known
    assert 0 < metrics.policies["miniature"]["completions"] <= known
