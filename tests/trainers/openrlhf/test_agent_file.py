"""The agent file with the miniature in the place of vLLM; tests/engines has the own command line itself."""

import asyncio
import math
from types import SimpleNamespace

import pytest

from mars_env.miniature import load
from mars_env.models.requests import Sampled
from mars_env.trainers.assembly import training_problems
from mars_env.trainers.openrlhf import agent_file
from mars_env.trainers.openrlhf.agent_file import AgentExecutor
from mars_env.trainers.recipes import MARSRL
from mars_env.types import Sampling

RUN = MARSRL.with_(
    out="run",
    steps=3,
    problems_per_step=4,
    environment={"id": "arithmetic-solve-verify-correct", "settings": {"rounds": 1}, "limit": 20},
    team={"model": "Qwen/Qwen3-0.6B", "agents": "mars_env.miniature.agents:team"},
    rollouts={"group": 4, "branches": 1},
    sampling={"max_tokens": 24, "temperature": 1.0},
)
ROWS = 12


class MiniatureEngine:
    """Samples with the miniature, as `AgentFileEngine` does with vLLM."""

    def __init__(self, engine):
        self.model = engine

    async def sample(self, ids, requests):
        [first, *_] = requests
        sampling = Sampling(first["temperature"], max_tokens=first["max_tokens"], seed=0)
        completions = await self.model.complete(ids, len(requests), sampling)
        return [Sampled(c.token_ids, c.logprobs, c.finish_reason, ()) for c in completions]


@pytest.fixture(scope="module")
def model():
    return load()


@pytest.fixture
def ask(model, monkeypatch):
    """What OpenRLHF's engine does with an agent file: n calls with one object of sampling parameters."""
    monkeypatch.setattr(agent_file, "AgentFileEngine", MiniatureEngine)

    async def ask(executor, prompt, n=ROWS, max_length=256, temperature=1.0):
        arguments = {
            "sampling_params": SimpleNamespace(temperature=temperature), "max_length": max_length,
            "hf_tokenizer": model.tokenizer, "llm_engine": model, "label": "",
        }  # fmt: skip
        return await asyncio.gather(*(executor.execute(prompt=prompt, **arguments) for _ in range(n)))

    return ask


async def test_the_calls_of_a_prompt_share_one_tree(ask):
    executor = AgentExecutor(RUN)
    prompts = [problem.id for problem in training_problems(RUN)][:8]
    families = await asyncio.gather(*(ask(executor, prompt) for prompt in prompts))
    trained = 0
    for prompt, rows in zip(prompts, families, strict=True):
        assert {row["prompt"] for row in rows} == {prompt}
        assert math.fsum(row["reward"] for row in rows) == pytest.approx(0, abs=1e-6)
        real = [row for row in rows if not row["extra_logs"]["filler"]]
        trained += len(real)
        for row in real:
            [(start, end)] = row["action_ranges"]
            assert start < end == len(row["observation_tokens"]) == len(row["rollout_log_probs"])
            assert max(row["rollout_log_probs"][start:end]) <= 0
    assert trained >= 8  # a group of mixed rewards, at least
    rewards = [row["reward"] for rows in families for row in rows]
    assert max(rewards) > 0 > min(rewards)
