"""The agent file under OpenRLHF's own command line, on a CPU: one launch."""

import sys
from pathlib import Path

import openrlhf_on_cpu
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mars_env.trainers.openrlhf.agent_file import RUN_FILE, agent_file_flags
from mars_env.trainers.openrlhf.command_line import as_words
from mars_env.trainers.run_file import load_run

FILE = """
out = "."
steps = 2
problems_per_step = 6

[environment]
id = "arithmetic-solve-verify-correct"
settings = { rounds = 1 }
problem_options = { split = "train", seed = 0 }
limit = 12

# Samples differ from run to run, and groups of equal rewards train nothing: these rewards differ.
[environment.rewards]
solver = "tiny_checkpoint:varied"
verifier = "tiny_checkpoint:varied"
corrector = "tiny_checkpoint:varied"

[team]
model = "MODEL"
agents = "mars_env.miniature.agents:team"

[rollouts]
group = 4
branches = 1

[sampling]
temperature = 0.9
max_tokens = 64

[engine]
context = 256

[train]
learning_rate = 1e-3

[logging]
tensorboard = true

[openrlhf]
actor.num_gpus_per_node = 1
vllm = { num_engines = 1, gpu_memory_utilization = 0.3, enforce_eager = true }
ds.attn_implementation = "eager"
rollout.micro_batch_size = 12
train.micro_batch_size = 12
"""


@pytest.fixture(scope="module")
def run(checkpoint, tmp_path_factory):
    """The folder of a run."""
    folder = tmp_path_factory.mktemp("agent_file")
    file = folder / "run.toml"
    file.write_text(FILE.replace("MODEL", str(checkpoint)), encoding="utf-8")
    flags = agent_file_flags(load_run(file), folder / "prompts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(RUN_FILE, str(file))
        with openrlhf_on_cpu.ray_on_cpus(gpus=2) as environment:
            command = [sys.executable, "-W", "ignore", "-m", "openrlhf.cli.train_ppo_ray", *as_words(flags)]
            openrlhf_on_cpu.ended_well(command, folder, environment)
    return folder


def test_both_steps_train_on_advantages_of_mean_zero(run):
    [file] = Path(run / "prompts").rglob("events*")
    events = EventAccumulator(str(file))
    events.Reload()

    def values(name):
        return {scalar.step: scalar.value for scalar in events.Scalars(f"train/{name}")}

    assert values("rollout/num_samples") == {1: 72, 2: 72}
    assert all(abs(mean) < 1e-6 for mean in values("rollout/reward_mean").values())
    assert all(spread > 0.1 for spread in values("rollout/reward_std").values())
    assert all(0 <= share < 1 for share in values("filler").values())
    assert all(norm > 0 for norm in values("actor_grad_norm").values())


def test_the_saved_model_is_a_trained_one(run, checkpoint):
    before, after = map(openrlhf_on_cpu.weights, (checkpoint, run / "model"))
    assert before.keys() >= after.keys()
    moved = [name for name in after if not after[name].float().equal(before[name].float())]
    assert len(moved) > len(after) / 2
