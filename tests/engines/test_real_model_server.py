"""SmolLM2-135M-Instruct on vLLM's own server, behind an `HTTPModel`: template, ids, log-probabilities."""

from __future__ import annotations

import asyncio

import pytest
from vllm_server import Server

from mars_env.models.hf import HFModel
from mars_env.models.http import HTTPModel
from mars_env.types import Sampling

TOLERANCE = 5e-4
END = 2
CHAT = [
    {"role": "system", "content": "You are a helpful teacher."},
    {"role": "user", "content": "Tom has 12 apples and eats 5. How many are left?"},
]


@pytest.fixture(scope="module")
def server(smollm2, tmp_path_factory):
    server = Server(smollm2, tmp_path_factory.mktemp("server") / "log", "--max-model-len", "2048")
    try:
        server.wait()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def hf(smollm2):
    return HFModel(smollm2, dtype="float32", name="hf")


def client(server):
    return HTTPModel([server.url], "miniature", exact=True, logprobs="processed", samples_per_call=1)


async def test_the_server_s_template_is_the_model_s(server, hf):
    """Messages are rendered by the server: with the very ids that the model in this process reads."""
    model = client(server)
    for chat in (CHAT, CHAT[1:]):
        [completion] = await model.complete(chat, 1, Sampling(max_tokens=4, seed=1))
        assert completion.prompt_ids == hf.encode(chat)


async def test_log_probabilities_and_stops_are_those_of_transformers(server, hf):
    sampling = Sampling(temperature=0.8, max_tokens=80, seed=2)
    model = client(server)
    completions = await model.complete(CHAT, 8, sampling)
    for completion in completions:
        assert completion.trainable
        expected = hf.logprobs(completion.prompt_ids, completion.token_ids, completion.temperature)
        assert max(abs(a - b) for a, b in zip(completion.logprobs, expected, strict=True)) < TOLERANCE
        assert (completion.token_ids[-1] == END) == (completion.finish_reason == "stop")
        assert completion.text == hf.tokenizer.decode(completion.token_ids, skip_special_tokens=True)
    assert {c.finish_reason for c in completions} >= {"stop"}


async def test_a_dialogue_by_ids_has_no_drift(server, hf):
    sampling = Sampling(temperature=1.3, max_tokens=40, seed=3)
    encode = hf.tokenizer.encode
    question = encode("<|im_end|>\n<|im_start|>user\nAre you sure?<|im_end|>\n<|im_start|>assistant\n")
    ids = hf.encode(CHAT)
    model = client(server)
    for _ in range(4):
        [completion] = await model.complete(ids, 1, sampling)
        assert completion.prompt_ids == ids
        expected = hf.logprobs(ids, completion.token_ids, sampling.temperature)
        assert max(abs(a - b) for a, b in zip(completion.logprobs, expected, strict=True)) < TOLERANCE
        kept = completion.token_ids[:-1] if completion.token_ids[-1] == END else completion.token_ids
        ids = (*ids, *kept, *question)


async def test_many_at_once_are_those_of_one(server):
    sampling = Sampling(temperature=0, max_tokens=8)
    model = client(server)
    [alone] = await model.complete(CHAT, 1, sampling)
    many = await asyncio.gather(*(model.complete(CHAT, 1, sampling) for _ in range(32)))
    assert {completion.token_ids for [completion] in many} == {alone.token_ids}
