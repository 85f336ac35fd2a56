import pytest

from mars_env.errors import ConfigError
from mars_env.models.scripted import ScriptedModel
from mars_env.testing.model_suite import check_model
from mars_env.types import Sampling

CHAT = [{"role": "user", "content": "1 + 1 ="}]


@pytest.mark.parametrize("ids", [False, True])
async def test_keeps_the_contract_of_models(ids):
    model = ScriptedModel(lambda prompt, sample, seed: f"the answer\nis {seed % 100} . ", ids=ids)
    await check_model(model, exact=ids, stop="is")
    await check_model(ScriptedModel(["one", "two", "three"], ids=ids), CHAT, exact=ids)


async def test_the_script_gets_the_prompt_the_sample_and_its_seed():
    calls = []
    model = ScriptedModel(lambda *call: calls.append(call) or "x")
    await model.complete("p", 2, Sampling(seed=1))
    await model.complete("p", 1, Sampling(seed=1))
    assert [call[:2] for call in calls] == [("p", 0), ("p", 1), ("p", 0)]
    assert calls[0] == calls[2]
    assert calls[0][2] != calls[1][2]


async def test_texts_come_in_turn_or_by_the_seed():
    model = ScriptedModel(["a", "b", "c"])
    assert [c.text for c in await model.complete("p", 4, Sampling())] == ["a", "b", "c", "a"]
    seeded = [(await model.complete("p", 1, Sampling(seed=seed)))[0].text for seed in range(50)]
    assert set(seeded) == {"a", "b", "c"}


LIMITS = [(2, "a b", "length", 2), (3, "a b c", "length", 3), (4, "a b c", "stop", 4)]


@pytest.mark.parametrize(("limit", "text", "reason", "tokens"), LIMITS)
async def test_limits_cut_and_are_told(limit, text, reason, tokens):
    [completion] = await ScriptedModel(["a b c"], ids=True).complete("p", 1, Sampling(max_tokens=limit))
    assert (completion.text, completion.finish_reason, len(completion.token_ids)) == (text, reason, tokens)
    assert (completion.token_ids[-1] == 0) == (reason == "stop")


async def test_unfit_scripts_are_refused():
    for script in ([], "text", None):
        with pytest.raises(ConfigError):
            ScriptedModel(script)
    with pytest.raises(ConfigError):
        await ScriptedModel(lambda *_: 3).complete("p", 1, Sampling())
