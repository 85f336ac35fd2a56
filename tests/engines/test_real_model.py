"""SmolLM2-135M-Instruct, a real chat model, by transformers, vLLM and its server: template, ids, prose."""

import asyncio
import re
from dataclasses import replace

import pytest
from real_engines import gap
from vllm_server import Server

from mars_env.agents import Solver, tool_loop
from mars_env.agents.calls import parse_json_calls
from mars_env.models import HFModel, HTTPModel
from mars_env.types import Sampling

TOLERANCE = 5e-4
"""The largest difference of a log-probability in float32 between vLLM and transformers (docs/agents.md)."""

END = 2
"""``<|im_end|>``, which ends a message of this model's template."""

CHAT = [
    {"role": "system", "content": "You are a helpful teacher."},
    {"role": "user", "content": "Tom has 12 apples and eats 5. How many are left?"},
    {"role": "assistant", "content": "Tom has 7 apples left."},
    {"role": "user", "content": "Why? Write at most three sentences."},
]
QUESTIONS = (
    "What is 17 + 25?",
    "Are you sure? Add the tens and the units apart.",
    "Write the same in Roman numerals: XVII and XXV.",
    "Now give a Python function `add(a, b)`.",
)


@pytest.fixture(scope="module")
def hf(smollm2):
    return HFModel(smollm2, dtype="float32", name="hf")


@pytest.fixture(scope="module")
def vllm(smollm2):
    from mars_env.models.vllm import VLLMModel

    options = {"max_model_len": 4096}
    with VLLMModel(smollm2, engine="offline", eager=True, options={"dtype": "float32", **options}) as model:
        yield model


@pytest.fixture(scope="module")
def served(smollm2, tmp_path_factory):
    """vLLM's own server."""
    with Server(smollm2, tmp_path_factory.mktemp("server") / "log", "--max-model-len", "2048") as server:
        server.wait()
        yield HTTPModel([server.url], "miniature", exact=True, logprobs="processed", samples_per_call=1)


@pytest.fixture(params=["hf", "vllm"])
def model(request):
    return request.getfixturevalue(request.param)


def double(x: int) -> int:
    "Double an integer."
    return 2 * x


async def test_a_turn_with_calls_is_one_text_of_the_template(model, hf, monkeypatch):
    """The model is too small to call anything: what it writes first and second is taken for a call."""
    asked = '{"name": "double", "arguments": {"x": 21}}'
    monkeypatch.setattr(tool_loop, "parse_calls", lambda text, tools, fenced: parse_json_calls(asked))
    agent = Solver(model, tools=[double], max_calls=2, system="", prompt="{{ problem }}", thinking=None)
    agent.sampling = Sampling(max_tokens=200, temperature=0.0)
    [action] = await agent.act({"problem": "Say hello, in one word."}, 1, 7)
    assert action.calls[0].result == "42" and len(action.completions) > 1
    tail = model.tokenizer.encode(
        "\n<|im_start|>user\n<tool_response>\n42\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
        add_special_tokens=False,
    )
    before, after = action.completions[:2]
    assert after.prompt_ids == (*before.prompt_ids, *before.token_ids, *tail)
    for completion in action.completions:
        assert gap(completion, hf) < TOLERANCE


async def test_log_probabilities_of_vllm_are_those_of_transformers(hf, vllm, record_property):
    prompts = [CHAT, *([{"role": "user", "content": text}] for text in QUESTIONS), "Once upon a time"]
    samplings = (Sampling(max_tokens=64, seed=3), Sampling(temperature=0.6, max_tokens=64, seed=4))
    asked = (vllm.complete(prompt, 2, sampling) for prompt in prompts for sampling in samplings)
    completions = [each for answer in await asyncio.gather(*asked) for each in answer]
    assert all(completion.trainable for completion in completions)
    assert sum(len(completion.token_ids) for completion in completions) > 500
    largest = max(gap(completion, hf) for completion in completions)
    record_property("largest difference", largest)
    assert largest < TOLERANCE


async def test_a_message_ends_with_the_stop_token_of_the_template(model):
    sampling = Sampling(temperature=0.7, max_tokens=120, seed=1)
    prompt = [{"role": "user", "content": "Say hello in one short sentence."}]
    completions = await model.complete(prompt, 6, sampling)
    ended = [c for c in completions if c.finish_reason == "stop"]
    assert len(ended) > 2
    for completion in completions:
        assert (completion.token_ids[-1] == END) == (completion.finish_reason == "stop")
        assert END not in completion.token_ids[:-1]
        assert "<|im" not in completion.text
        assert len(completion.logprobs) == len(completion.token_ids), "the stop token is trained, too"
    cut = await model.complete(prompt, 2, replace(sampling, max_tokens=3))
    assert {c.finish_reason for c in cut} == {"length"}
    [stopped] = await model.complete(prompt, 1, replace(sampling, stop=("!", ".")))
    assert (stopped.finish_reason, stopped.text) == ("stop", re.split("[!.]", stopped.text)[0])


async def test_ids_stay_exact_over_many_turns(hf, vllm):
    """A dialogue by ids: each prompt is all ids before it. Log-probabilities of all turns agree with one pass
    over the last dialogue; text that is tokenised again gives other ids."""
    encode, decode = vllm.tokenizer.encode, vllm.tokenizer.decode
    opening, closing = encode("\n<|im_start|>user\n"), encode("<|im_end|>\n<|im_start|>assistant\n")
    sampling = Sampling(temperature=1.3, max_tokens=60, seed=5)
    ids, spans, drift = vllm.encode([{"role": "user", "content": QUESTIONS[0]}]), [], 0
    for turn in range(6):
        [completion] = await vllm.complete(ids, 1, replace(sampling, seed=turn))
        assert completion.prompt_ids == ids
        spans.append((len(ids), completion))
        drift += tuple(encode(decode(completion.token_ids))) != completion.token_ids
        end = () if completion.token_ids[-1] == END else (END,)
        question = encode(QUESTIONS[(turn + 1) % len(QUESTIONS)])
        ids = (*ids, *completion.token_ids, *end, *opening, *question, *closing)
    for begin, completion in spans:
        assert ids[begin : begin + len(completion.token_ids)] == completion.token_ids
    first = spans[0][0]
    whole = hf.logprobs(ids[:first], ids[first:], sampling.temperature)
    for begin, completion in spans:
        seen = whole[begin - first :][: len(completion.token_ids)]
        assert max(abs(a - b) for a, b in zip(completion.logprobs, seen, strict=True)) < TOLERANCE
    assert drift, "no completion is tokenised otherwise: this shows nothing"


async def test_the_server_s_template_log_probabilities_and_stops_are_the_model_s(served, hf):
    """Messages are rendered by the server: with the very ids that the model in this process reads."""
    sampling = Sampling(temperature=0.8, max_tokens=80, seed=2)
    for chat in (CHAT, CHAT[1:]):
        for completion in await served.complete(chat, 4, sampling):
            assert completion.prompt_ids == hf.encode(chat)
            assert completion.trainable
            assert gap(completion, hf) < TOLERANCE
            assert (completion.token_ids[-1] == END) == (completion.finish_reason == "stop")
            assert completion.text == hf.tokenizer.decode(completion.token_ids, skip_special_tokens=True)
