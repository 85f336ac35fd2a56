"""The custom environment of examples/openrlhf, trained on a CPU: only sizes and placement differ.

test_mixture_through_openrlhf.py trains by a settings file, too.
"""

import openrlhf_on_cpu
from tiny_checkpoint import tiny_checkpoint

FLAGS = {
    **openrlhf_on_cpu.STEADY,
    "--mars.env": "calibration:arithmetic-assessed",
    "--mars.problem_options": "{}",
    "--mars.problems": 2,
    "--mars.group": 4,
    "--mars.branches": 1,
    # The custom Assessor keeps its own reward: a random model states no probability.
    "--mars.rewards": '{"solver": "tiny_checkpoint:varied"}',
    "--data.max_len": 4096,
    "--rollout.max_new_tokens": 12,
    "--rollout.batch_size": 2,
    "--rollout.micro_batch_size": 4,
    "--train.batch_size": 24,
    "--train.micro_batch_size": 4,
    "--actor.adam.lr": 1e-2,
}


def test_a_custom_environment_trains(cluster, tmp_path):
    base = tiny_checkpoint(tmp_path / "base")
    file = openrlhf_on_cpu.EXAMPLES / "custom_environment.toml"
    flags = {**FLAGS, "--actor.model_name_or_path": base}
    run = openrlhf_on_cpu.launched(tmp_path, cluster, flags, f"--config={file}", *openrlhf_on_cpu.APART)
    before, after = map(openrlhf_on_cpu.weights, (base, run / "model"))
    assert before.keys() == after.keys()
    assert any(not before[name].equal(after[name]) for name in before)
    samples = openrlhf_on_cpu.samples(run)
    # Groups without a difference have advantages, too: of zero.
    assert {row["role"] for row in samples if row["advantage"]} == {"solver"}
    assert {row["policy"] for row in samples} == {"actor"}
    assert openrlhf_on_cpu.logged(run / "board", "train")[1]["rollout/num_samples"] == len(samples)
