"""vLLM's OpenAI-compatible server, two replicas of it, behind an `HTTPModel`."""

import asyncio

from real_engines import PROMPT, gap

from mars_env.models import HFModel, HTTPModel
from mars_env.testing.model_suite import check_model
from mars_env.types import Sampling


def client(servers, **settings):
    settings = {"exact": True, "logprobs": "processed", "samples_per_call": 1} | settings
    return HTTPModel([server.url for server in servers], "miniature", **settings)


async def test_keeps_the_contract_of_models(servers):
    sampling = Sampling(max_tokens=24, seed=1)
    model = client(servers)
    [free] = await model.complete(PROMPT, 1, sampling)
    await check_model(model, PROMPT, sampling=sampling, exact=True, stop=free.text[1])
    model = client(servers, exact=False, samples_per_call=None)
    await check_model(model, PROMPT, sampling=sampling, reproducible=False)


async def test_scores_are_those_of_transformers(servers, module, checkpoint, tolerance):
    model = client(servers, tokenizer=checkpoint)
    local = HFModel((module, model.tokenizer))
    for texts in (("a:288", "b: - 72"), ("b:216",)):
        scored, expected = [await each.score(PROMPT, *texts) for each in (model, local)]
        assert (scored.prompt_ids, scored.token_ids) == (expected.prompt_ids, expected.token_ids)
        assert gap(scored, module) < tolerance


async def test_a_killed_replica_costs_no_completion(servers):
    """The last test of the servers: one is gone afterwards."""
    model = client(servers, attempts=4, backoff=0.1, concurrency=8)
    tasks = [
        asyncio.create_task(model.complete(PROMPT, 2, Sampling(max_tokens=60, temperature=2, seed=seed)))
        for seed in range(60)
    ]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    servers[1].kill()
    answers = await asyncio.gather(*tasks)
    assert all(len(answer) == 2 and answer[0].trainable for answer in answers)
