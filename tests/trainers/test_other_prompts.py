"""Samples that are trained on another prompt than the model read: RuscaRL's ratios, and who rejects them."""

import pytest
import torch
from tiny_team import flat
from toy_training import changed

from mars_env.envs import Game, GroupedSettings, solve
from mars_env.envs.rubric_rewards import RubricReward
from mars_env.errors import ConfigError
from mars_env.grading.rubrics import RubricGrader
from mars_env.methods.ruscarl import Scaffold, Scaffolded
from mars_env.rollout.records import turn_from_row, turn_to_row
from mars_env.trainers import LocalTrainer, Policy, RunSettings, TrainConfig, make_team, train
from mars_env.trainers.openrlhf.rollouts.responses import BatchShape, responses
from mars_env.trainers.samples import turn_samples
from studies.rubrics.lock import SAMPLING, locks, opener, show_steps, step_is_right, warm_started

PLAIN = (9, 8)


@pytest.fixture
def groups(toy):
    """Two groups with rewards 1 and 0 by turns; every turn read another prompt than is trained on."""
    return changed(toy.rewarded(toy.toy_groups(toy.tiny_model(), 0)), train_prompt_ids=PLAIN)


def step(toy, groups, **options):
    policy = Policy(toy.tiny_model())
    figures = LocalTrainer({"mars": policy}, TrainConfig(learning_rate=1e-2), **options).step(groups)
    return figures.policies["mars"], flat(policy.model)


def test_the_plain_ratio_is_one_and_the_update_that_of_the_plain_prompt(toy, groups):
    figures, weights = step(toy, groups)
    assert figures["ratio"] == pytest.approx(1.0) and figures["importance"] == 1.0
    assert figures["other_prompt"] == 1.0 and figures["rollout_gap"] == 0.0
    same, expected = step(toy, changed(groups, prompt_ids=PLAIN, train_prompt_ids=()), on_policy=True)
    assert torch.equal(weights, expected) and "other_prompt" not in same
    _, read = step(toy, changed(groups, train_prompt_ids=()))
    assert not torch.allclose(weights, read)


def test_the_gap_to_the_engine_is_that_of_samples_with_the_prompt_that_was_read(toy, groups):
    mixed = [groups[0], *changed(groups[1:], train_prompt_ids=())]
    figures, _ = step(toy, mixed)
    assert 0 < figures["other_prompt"] < 1 and figures["rollout_gap"] < 1e-5


def test_samples_say_what_was_read_and_rows_keep_both_prompts(groups):
    turn = groups[0].turns[0]
    assert turn_from_row(turn_to_row(turn)) == turn
    sample = turn_samples(groups, TrainConfig())[0]
    assert sample.prompt_ids == PLAIN and sample.read_prompt_ids == turn.action.completions[0].prompt_ids


def test_openrlhf_takes_no_other_prompt(groups):
    shape = BatchShape(ranks=1, rollout_micro=1, train_micro=1, batch=4)
    samples = turn_samples(groups, TrainConfig())
    with pytest.raises(ConfigError):
        responses(samples, shape, temperature=samples[0].temperature, padding_token=0)


def helped(name, model):
    return Scaffolded(opener(model), Scaffold(run="linear"), show=show_steps)


async def test_progress_goes_from_0_to_1_and_the_help_with_it():
    grouped = GroupedSettings(group=3, branches=1)
    run = RunSettings(steps=3, problems_per_step=2, seed=1, rollouts=grouped, sampling=SAMPLING)
    game = Game(solve(), RubricGrader(checks={"step": step_is_right}), rewards={"solver": RubricReward()})
    team = make_team(run, ["solver_0"], [warm_started(steps=2)], agent=helped)
    history = await train(game, team, locks(1), run)
    shares = [step.policies["opener"].get("other_prompt", 0.0) for step in history]
    assert shares[0] == pytest.approx(2 / 3, abs=0.2) and shares[-1] == 0.0
