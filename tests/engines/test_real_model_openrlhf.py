"""Three updates of SmolLM2-135M-Instruct through OpenRLHF, on a CPU: Ray, DeepSpeed and vLLM, one launch."""

import openrlhf_on_cpu
import pytest
from real_model import word_problem_file

END = 2
VLLM_KL = 0.05
"""Largest mean difference of a log-probability between engine and trainer, which both compute in bfloat16."""

LIMIT = 40
SETTINGS = {
    **openrlhf_on_cpu.MINIATURE,
    # It solves almost nothing by chance, and groups of equal rewards train nothing: these rewards differ.
    "environment.rewards.solver": "tiny_checkpoint:varied",
    "environment.limit": 3,
    "steps": 3,
    "problems_per_step": 1,
    "rollouts.group": 6,
    "sampling.max_tokens": LIMIT,
    "sampling.temperature": 0.9,
    "train.learning_rate": 1e-5,
    "openrlhf.rollout.micro_batch_size": 2,
    "openrlhf.train.micro_batch_size": 2,
}


@pytest.fixture(scope="module")
def run(cluster, smollm2, tmp_path_factory):
    """The folder of a run of three updates, one problem each."""
    folder = tmp_path_factory.mktemp("real")
    problems = word_problem_file(folder / "words.jsonl", 3)
    settings = {**SETTINGS, "team.model": str(smollm2), "environment.problems": str(problems)}
    return openrlhf_on_cpu.launched(folder, cluster, "aime-solve", settings)


def test_three_updates_are_trained_and_engine_and_trainer_agree(run):
    steps = openrlhf_on_cpu.logged(run)
    assert [row["update"] for row in openrlhf_on_cpu.updates(run)] == [*steps] == [1, 2, 3]
    for figures in steps.values():
        assert figures["samples"] == 6
        assert figures["advantage_std"] > 0.5
        assert abs(figures["vllm_kl"]) < VLLM_KL


def test_prompts_are_rendered_by_the_model_s_own_template(run, smollm2):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    for row in openrlhf_on_cpu.samples(run):
        prompt = tokenizer.decode(row["prompt_ids"])
        assert prompt.startswith("<|im_start|>system\nYou ")
        assert prompt.endswith("<|im_end|>\n<|im_start|>assistant\n")
        assert "How many" in prompt
        assert len(row["completion_ids"]) <= LIMIT
        assert END not in row["completion_ids"][:-1]
        assert len(row["completion_ids"]) == LIMIT or row["completion_ids"][-1] == END


def test_the_trained_model_is_an_ordinary_checkpoint(run, smollm2):
    from transformers import AutoTokenizer

    before, after = map(openrlhf_on_cpu.weights, (smollm2, run / "model"))
    after.pop("lm_head.weight", None)  # the embedding once more: they are tied
    assert {name: tensor.shape for name, tensor in before.items()} == {
        name: tensor.shape for name, tensor in after.items()
    }
    assert not all(before[name].equal(after[name].to(before[name].dtype)) for name in before)
    ours, theirs = (AutoTokenizer.from_pretrained(path) for path in (run / "model", smollm2))
    assert ours.chat_template == theirs.chat_template
