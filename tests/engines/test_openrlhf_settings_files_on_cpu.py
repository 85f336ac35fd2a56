"""The custom environment of examples/openrlhf, trained on a CPU by both backends in small sizes.

test_mixture_through_openrlhf.py trains by a run file, too.
"""

import openrlhf_on_cpu
import pytest
from tiny_checkpoint import tiny_checkpoint

from mars_env.loggers import read_jsonl

FILE = openrlhf_on_cpu.EXAMPLES / "custom_environment.toml"
SETTINGS = {
    **openrlhf_on_cpu.MINIATURE,
    **openrlhf_on_cpu.APART,
    "environment.id": "calibration:arithmetic-assessed",
    "environment.limit": 6,
    # The custom Assessor keeps its own reward: a random model states no probability.
    "environment.rewards.solver": "tiny_checkpoint:varied",
    "steps": 3,
    "problems_per_step": 2,
    "rollouts.group": 4,
    "rollouts.branches": 1,
    "engine.context": 4096,
    "sampling.max_tokens": 12,
    "train.minibatches": 1,
    "train.learning_rate": 1e-2,
    "openrlhf.rollout.micro_batch_size": 4,
    "openrlhf.train.micro_batch_size": 4,
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny_checkpoint(tmp_path_factory.mktemp("base"))


def trained(base, checkpoint):
    """Whether a checkpoint has the same tensors with other values."""
    before, after = map(openrlhf_on_cpu.weights, (base, checkpoint))
    assert before.keys() == after.keys()
    return any(not before[name].equal(after[name]) for name in before)


def test_a_custom_environment_trains_through_openrlhf(cluster, base, tmp_path):
    run = openrlhf_on_cpu.launched(tmp_path, cluster, FILE, {**SETTINGS, "team.model": str(base)})
    assert trained(base, run / "model")
    samples = openrlhf_on_cpu.samples(run)
    # Groups without a difference have advantages, too: of zero.
    assert {row["role"] for row in samples if row["advantage"]} == {"solver"}
    assert {row["policy"] for row in samples} == {"policy"}
    logged = openrlhf_on_cpu.logged(run)
    assert sum(logged[update]["samples"] for update in (1, 2, 3)) == len(samples)


def test_the_same_file_trains_in_one_process(cluster, base, tmp_path):
    settings = {**SETTINGS, "team.model": str(base), "backend": "local", "out": str(tmp_path / "run")}
    openrlhf_on_cpu.ended_well(openrlhf_on_cpu.command(FILE, settings), tmp_path, cluster)
    assert [row["step"] for row in read_jsonl(tmp_path / "run" / "metrics.jsonl")] == [1, 2, 3]
    assert trained(base, tmp_path / "run" / "step-00000003" / "policy")
