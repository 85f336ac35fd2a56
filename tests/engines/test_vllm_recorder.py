"""The recorder before vLLM's own server: what it stores is what the engine read and sampled."""

import pytest
from real_engines import gap

from mars_env.rollout import read_run
from mars_env.serving.recorder import Recorder

openai = pytest.importorskip("openai", reason="the official client is not installed: pip install openai")


@pytest.fixture
def server(servers):
    return servers[0]


def recorder_of(server, path):
    return Recorder(server.url, path, logprobs="processed")


def client_of(url, key="none"):
    return openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0)


async def ask(who, text, *, stream, **settings):
    """The answer's id and text."""
    made = await who.chat.completions.create(
        model="miniature", messages=[{"role": "user", "content": text}], stream=stream, **settings
    )
    if not stream:
        return made.id, made.choices[0].message.content
    name, said = "", ""
    async for chunk in made:
        name = chunk.id
        said += "".join(choice.delta.content or "" for choice in chunk.choices)
    return name, said


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("temperature", [0.5, 1.0])
async def test_what_is_stored_is_what_the_engine_tells_and_what_transformers_computes(
    server, module, tolerance, tmp_path, stream, temperature
):
    settings = {"temperature": temperature, "max_tokens": 40, "seed": 11}
    extra = {"return_token_ids": True, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
    async with client_of(server.url) as direct:  # the engine without a recorder, asked the same
        told = await direct.chat.completions.create(
            model="miniature",
            messages=[{"role": "user", "content": "a:5"}],
            logprobs=True,
            top_p=1.0,
            extra_body=extra,
            **settings,
        )
    async with recorder_of(server, tmp_path) as recorder, client_of(recorder.url, "mars:solver_0") as who:
        name, said = await ask(who, "a:5", stream=stream, **settings)
    [tree] = read_run(tmp_path).trees
    [turn] = tree.turns
    [completion] = turn.action.completions
    [choice] = told.choices
    assert turn.info["id"] == name
    assert completion.text == said == choice.message.content
    assert list(completion.prompt_ids) == told.prompt_token_ids
    assert list(completion.token_ids) == choice.token_ids
    logprobs = [entry.logprob for entry in choice.logprobs.content]
    assert completion.logprobs == pytest.approx(logprobs, abs=tolerance)
    assert gap(completion, module) < tolerance
