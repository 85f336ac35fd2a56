"""What `mars-env export` writes, read by OpenRLHF's own data sets for supervised training and for DPO."""

from types import SimpleNamespace

import pytest
from tiny_checkpoint import byte_tokenizer
from typer.testing import CliRunner

import mars_env
from mars_env.cli import app
from mars_env.models import ScriptedModel
from mars_env.problems import ProblemSet
from mars_env.types import Problem

PROBLEMS = ProblemSet("sums", [Problem(f"s{i}", f"What is {i} + 1?", str(i + 1)) for i in range(4)])
TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The exported files: a supervised one, and one of pairs."""
    folder = tmp_path_factory.mktemp("exported")
    answers = ScriptedModel([rf"\boxed{{{i}}}" for i in (1, 2, 3, 4, 9)])
    mars_env.evaluate("aime-solve", problems=PROBLEMS, agents=answers, samples=9, seed=1, out=folder / "run")
    for kind in ("sft", "dpo"):
        told = CliRunner().invoke(
            app, ["export", str(folder / "run"), str(folder / f"{kind}.jsonl"), "--format", kind]
        )
        assert told.exit_code == 0, told.output
    return folder


@pytest.fixture
def tokenizer(shim):
    """One that renders roles."""
    made = byte_tokenizer()
    made.chat_template = TEMPLATE
    return made


def loaded(rows, kind):
    from datasets import load_dataset

    file = str(rows / f"{kind}.jsonl")
    return load_dataset("json", data_files=file, split="train", cache_dir=str(rows / "cache"))


def strategy(**keys):
    data = SimpleNamespace(**keys, apply_chat_template=True, tokenizer_chat_template=None)
    return SimpleNamespace(args=SimpleNamespace(data=data))


def test_supervised_rows(rows, tokenizer):
    from openrlhf.datasets import SFTDataset

    data = loaded(rows, "sft")
    keys = strategy(input_key="prompt", output_key="completion")
    read = SFTDataset(data, tokenizer, 4096, keys, num_processors=1)
    assert len(read) == len(data) > 3
    for row, prompt, response in zip(data, read.prompts, read.responses, strict=True):
        assert prompt.startswith("[system]You solve problems")
        assert prompt.endswith("[assistant]")
        assert response == row["completion"][0]["content"]
    ids, _, mask = read[0][:3]
    trained = tokenizer.decode(ids.flatten()[mask.flatten().bool().roll(1)], skip_special_tokens=True)
    assert "boxed" in trained
    assert "[user]" not in trained


def test_pairs(rows, tokenizer):
    from openrlhf.datasets import RewardDataset

    data = loaded(rows, "dpo")
    keys = strategy(prompt_key="prompt", chosen_key="chosen", rejected_key="rejected")
    read = RewardDataset(data, tokenizer, 4096, keys, is_dpo=True, num_processors=1)
    assert len(read) == len(data) > 3
    for row, chosen, rejected in zip(data, read.chosens, read.rejects, strict=True):
        assert (chosen, rejected) == (row["chosen"][0]["content"], row["rejected"][0]["content"])
    assert len(read[0]) == 5
