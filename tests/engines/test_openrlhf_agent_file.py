"""The agent file under OpenRLHF's own command line, on a CPU: one launch."""

import sys

import openrlhf_on_cpu
import pytest

from mars_env.trainers.openrlhf.agent_file.executor import SETTINGS
from mars_env.trainers.openrlhf.agent_file.prompts import agent_file_flags
from mars_env.trainers.openrlhf.settings import TeamSettings

TEAM = TeamSettings(
    env="arithmetic-solve-verify-correct",
    options={"schedule": "training", "rounds": 1},
    agents="mars_env.miniature.agents:team",
    # Samples differ from run to run, and groups of equal rewards train nothing: these rewards differ.
    rewards=dict.fromkeys(("solver", "verifier", "corrector"), "tiny_checkpoint:varied"),
    problem_options={"split": "train", "seed": 0},
    problems=12,
    group=4,
    branches=1,
    eval_problem_options={"split": "test", "seed": 0},
    eval_problems=4,
    eval_options={"rounds": 1},
)
FLAGS = {
    **openrlhf_on_cpu.MINIATURE,
    "--data.max_len": "256",
    "--rollout.temperature": "0.9",
    "--rollout.batch_size": "6",
    "--rollout.micro_batch_size": "12",
    "--train.batch_size": "72",
    "--train.micro_batch_size": "12",
    "--actor.adam.lr": "1e-3",
    "--eval.steps": "2",
    "--eval.temperature": "0",
    "--logger.wandb.run_name": "run",
}


@pytest.fixture(scope="module")
def run(checkpoint, tmp_path_factory):
    """The folder of a run."""
    folder = tmp_path_factory.mktemp("agent_file")
    settings = folder / "team.json"
    settings.write_text(TEAM.model_dump_json(exclude_defaults=True), encoding="utf-8")
    own = {
        **openrlhf_on_cpu.folders(folder),
        "--actor.model_name_or_path": checkpoint,
    }
    own.pop("--mars.record")
    words = [*agent_file_flags(TEAM, folder / "prompts"), *openrlhf_on_cpu.words({**FLAGS, **own})]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SETTINGS, str(settings))
        with openrlhf_on_cpu.ray_on_cpus(gpus=2) as environment:
            called = [sys.executable, "-W", "ignore", "-m", "openrlhf.cli.train_ppo_ray", *words]
            openrlhf_on_cpu.ended_well(called, folder, environment)
    return folder


def test_both_steps_train_on_advantages_of_mean_zero(run):
    steps = openrlhf_on_cpu.logged(run / "board", "train")
    assert [*steps] == [1, 2]
    for step in steps.values():
        assert step["rollout/num_samples"] == 72
        assert step["rollout/reward_mean"] == pytest.approx(0, abs=1e-6)
        assert step["rollout/reward_std"] > 0.1
        assert 0 < step["turn_reward"] < 1
        assert 0 < step["filler"] < 1
        assert step["actor_grad_norm"] > 0


def test_evaluation_tells_the_system_s_accuracy(run):
    [told] = openrlhf_on_cpu.logged(run / "board", "eval").values()
    assert told["eval_num_samples"] == 4
    assert told["eval_arithmetic_pass1"] * 4 in range(5)


def test_the_saved_model_is_a_trained_one(run, checkpoint):
    before, after = map(openrlhf_on_cpu.weights, (checkpoint, run / "model"))
    assert before.keys() >= after.keys()
    moved = [name for name in after if not after[name].float().equal(before[name].float())]
    assert len(moved) > len(after) / 2
