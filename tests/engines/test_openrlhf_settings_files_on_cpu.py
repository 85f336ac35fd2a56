"""The custom environment of examples/openrlhf, trained on a CPU in small sizes; its embeddings are tied.

test_mixture_through_openrlhf.py trains by a run file, too.
"""

import openrlhf_on_cpu
from tiny_checkpoint import tiny_checkpoint

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


VLLM_KL = 0.05
"""Largest mean difference of a log-probability between engine and trainer, which both compute in bfloat16."""


def test_a_custom_environment_trains_through_openrlhf(cluster, tmp_path):
    base = tiny_checkpoint(tmp_path / "base", tied=True)
    run = openrlhf_on_cpu.launched(tmp_path, cluster, FILE, {**SETTINGS, "team.model": str(base)})
    before, after = map(openrlhf_on_cpu.weights, (base, run / "model"))
    after.pop("lm_head.weight", None)  # the embedding once more
    assert before.keys() == after.keys()
    assert not all(before[name].equal(after[name]) for name in before)
    samples = openrlhf_on_cpu.samples(run)
    # Groups without a difference have advantages, too: of zero.
    assert {row["role"] for row in samples if row["advantage"]} == {"solver"}
    assert {row["policy"] for row in samples} == {"policy"}
    logged = openrlhf_on_cpu.logged(run)
    assert sum(logged[update]["samples"] for update in (1, 2, 3)) == len(samples)
    assert all(abs(figures["vllm_kl"]) < VLLM_KL for figures in logged.values())
