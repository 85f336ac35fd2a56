"""A place in a game as an environment of OpenEnv: its own client plays, and TRL's trainer learns there."""

import json
import signal
import subprocess
from contextlib import ExitStack
from random import Random
from statistics import fmean, stdev

import pytest
import torch
from command_line import command
from tiny_checkpoint import byte_tokenizer
from waiting import PATIENCE

import mars_env

GAME = "arithmetic-solve-verify-correct"
DIGITS = "12"
TURNS = 2
PARTNERS = {"solver": r"\boxed{9}", "verifier": "Correctness: Incorrect"}
SAMPLES = 8


def problem_of(digit):
    return f"What is {int(digit) - 1} + 1?"


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    """A file of sums whose results are among the digits that the model writes."""
    file = tmp_path_factory.mktemp("sums") / "sums.jsonl"
    rows = [{"id": digit, "problem": problem_of(digit), "answer": digit} for digit in DIGITS]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture(scope="module")
def url(problems):
    """Where `mars-env serve` offers the Corrector's place, which has two turns: scripts play the others."""
    partners = ",".join(f"{role}=scripted:{text}" for role, text in PARTNERS.items())
    game = [GAME, "--set", f"rounds={TURNS}", "--problems", problems]
    place = ["--protocol", "openenv", "--role", "corrector_0", "--agents", partners, "--port", 0]
    process = subprocess.Popen(command("serve", *game, *place), stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("serving at "), line
        yield line.removeprefix("serving at ").split(";")[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


class Corrector:
    """An environment of TRL: its public methods, except `reset` and `get_reward`, are the model's tools."""

    def __init__(self, client):
        self._client = client

    def reset(self, seed, **row):
        """Called with a row of the data set; what it returns is added to the prompt."""
        self.seed, self.texts, self.rewards = seed, [], []
        return fields(self._client.reset(seed=seed).observation)

    def answer(self, text: str) -> str:
        """Write a solution.

        Args:
            text: The whole solution.
        """
        result = self._client.step({"text": text})
        self.texts.append(text)
        self.rewards.append(result.reward)
        return fields(result.observation)

    def get_reward(self):
        return sum(self.rewards)


def fields(observation):
    """Shorter than the messages, since a token of the model is a byte."""
    return "{problem} {solution} is wrong.".format_map(observation)


def reward_of(problems, seed, texts):
    """What these texts earn in the game itself, without a server."""
    env = mars_env.make(GAME, problems=problems, rounds=TURNS)
    partners = {role: lambda observation, text=text: text for role, text in PARTNERS.items()}
    view = mars_env.as_gymnasium(env, learner="corrector_0", partners=partners)
    view.reset(seed=seed)
    return sum(view.step(text)[1] for text in texts)


@pytest.fixture(scope="module")
def tokenizer():
    """Bytes, with Qwen's chat template; what surrounds the digit of a tool call is one token."""
    from trl.chat_template_utils import qwen3_instruct_2507_chat_template

    call, end = '<tool_call>\n{"name": "answer", "arguments": {"text": "\\\\boxed{', '}"}}\n</tool_call>'
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>"})
    tokenizer.add_tokens(["<|im_start|>", call, end])
    tokenizer.chat_template = qwen3_instruct_2507_chat_template
    return tokenizer


def model_that_calls(tokenizer):
    """A tiny model that has been taught to call the tool, with any of the digits."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=32, max_position_embeddings=4096,
        tie_word_embeddings=False, eos_token_id=tokenizer.eos_token_id, pad_token_id=0, bos_token_id=None,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    optimizer, random = torch.optim.Adam(model.parameters(), lr=5e-3), Random(0)
    for _ in range(80):
        ids, trained = conversation(tokenizer, random)
        loss = model(input_ids=ids, labels=ids.where(trained, -100)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def conversation(tokenizer, random):
    """An episode as chat, (1, tokens), and which of its tokens are the model's."""
    from trl.chat_template_utils import get_training_chat_template

    problem = problem_of(random.choice(DIGITS))
    solutions = [PARTNERS["solver"]] + [rf"\boxed{{{random.choice(DIGITS)}}}" for _ in range(TURNS)]
    texts = [fields({"problem": problem, "solution": solution}) for solution in solutions]
    messages = [{"role": "user", "content": texts[0]}]
    for solution, text in zip(solutions[1:], texts[1:], strict=True):
        call = {"name": "answer", "arguments": {"text": solution}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [{"function": call}]})
        messages.append({"role": "tool", "name": "answer", "content": text})
    rendered = tokenizer.apply_chat_template(
        messages,
        tools=[Corrector(None).answer],
        chat_template=get_training_chat_template(tokenizer),
        return_dict=True,
        return_assistant_tokens_mask=True,
        return_tensors="pt",
    )
    return rendered["input_ids"], rendered["assistant_masks"].bool()


def connected(url):
    """OpenEnv's own client, to be entered."""
    from openenv.core.generic_client import GenericEnvClient

    return GenericEnvClient(base_url=url, message_timeout_s=PATIENCE).sync()


def test_openenvs_own_client_plays(url):
    with connected(url) as client:
        first = client.reset(seed=3)
        assert not first.done and first.observation["problem"] in first.observation["messages"][-1]["content"]
        steps = [client.step({"text": r"\boxed{1000}"}) for _ in range(TURNS)]
        assert [(step.reward, step.done) for step in steps] == [(0.0, False), (0.0, True)]
        assert client.state()["step_count"] == TURNS
        with pytest.raises(RuntimeError, match="reset"):
            client.step({"text": "?"})


def test_a_step_of_trl_trains_on_the_rewards_of_the_game(url, problems, tokenizer, tmp_path):
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    model = model_that_calls(tokenizer)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    rows = [{"prompt": [{"role": "user", "content": ""}], "seed": seed} for seed in (1, 2)]
    with ExitStack() as clients:
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            train_dataset=Dataset.from_list(rows),
            environment_factory=lambda: Corrector(clients.enter_context(connected(url))),
            args=GRPOConfig(
                num_generations=SAMPLES,
                per_device_train_batch_size=2 * SAMPLES,
                max_steps=1,
                learning_rate=1e-3,
                max_completion_length=512,
                max_tool_calling_iterations=TURNS,
                output_dir=str(tmp_path),
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                report_to=[],
                logging_steps=1,
                save_strategy="no",
                disable_tqdm=True,
            ),
        )
        trainer.train()
    episodes = trainer.environments
    rewards = [reward_of(problems, episode.seed, episode.texts) for episode in episodes]
    step = trainer.state.log_history[0]
    assert len(episodes) == 2 * SAMPLES
    assert step["rewards/Corrector/mean"] == step["reward"] == pytest.approx(fmean(rewards))
    assert step["rewards/Corrector/std"] == pytest.approx(stdev(rewards))
    assert stdev(rewards) > 0
    assert step["grad_norm"] > 0
    assert any(not torch.equal(value, before[name]) for name, value in model.named_parameters())
