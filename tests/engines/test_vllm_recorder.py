"""The recorder before vLLM's own server: what it stores is what the engine read and sampled."""

import pytest
from real_engines import gap

from mars_env.rollout import groups_of, read_run
from mars_env.rollout.rewarding import attach_rewards
from mars_env.serving.recorder import Recorder
from mars_env.trainers import LocalTrainer, Policy, TrainConfig
from mars_env.trainers.samples import turn_samples

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


async def test_a_team_of_another_program_is_trained(server, module, tolerance, tmp_path):
    rewards = {}
    async with recorder_of(server, tmp_path) as recorder:
        for sample in range(4):
            for agent in ("solver_0", "verifier_0"):
                async with client_of(recorder.url, f"mars:{agent}:sums/0#{sample}") as who:
                    name, _ = await ask(who, "a:5", stream=bool(sample % 2), max_tokens=20, seed=sample)
                    rewards[name] = float(sample % 2)
        assert recorder.counts["turns"] == 8
        assert not recorder.counts["not trainable"]
    assert attach_rewards(tmp_path, rewards) == 8
    groups = groups_of(read_run(tmp_path).trees)
    samples = turn_samples(groups, TrainConfig())
    assert len(samples) == 8
    assert {sample.role for sample in samples} == {"solver", "verifier"}
    assert {len({s.group_id for s in samples if s.role == role}) for role in ("solver", "verifier")} == {1}
    assert all(len(s.logprobs) == len(s.completion_ids) > 0 for s in samples)
    before = [parameter.detach().clone() for parameter in module.parameters()]
    metrics = LocalTrainer({"miniature": Policy(module)}, TrainConfig(learning_rate=1e-4)).step(groups)
    assert metrics.policies["miniature"]["rollout_gap"] < tolerance
    assert any((a != b).any() for a, b in zip(before, module.parameters(), strict=True))


async def test_a_refused_request_is_no_turn(server, tmp_path):
    async with recorder_of(server, tmp_path) as recorder, client_of(recorder.url) as who:
        with pytest.raises(openai.BadRequestError):
            await ask(who, "a:5", stream=False, max_tokens=1_000_000)
        assert recorder.counts == {"status 400": 1}
    assert read_run(tmp_path).trees == ()
