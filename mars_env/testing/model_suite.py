"""The contract suite for models: what a user's own `Model` must promise for rollouts and training."""

import asyncio
import inspect
from dataclasses import replace
from typing import Any, get_args

from mars_env import checks
from mars_env.errors import explained
from mars_env.types import Completion, FinishReason, Model, Prompt, Sampling

CONCURRENCY = 64


async def check_model(
    model: Model,
    prompt: Prompt = "1 + 1 =",
    *,
    sampling: Sampling | None = None,
    reproducible: bool = True,
    exact: bool = False,
    stop: str | None = None,
) -> None:
    """Check a model against the contract of `mars_env.types.Model`.

    A `reproducible` one gives the same completions for the same seed, whatever n is; those of an `exact` one
    have token ids and log-probabilities. `stop` is a string that occurs in them, to check that it ends them.
    """
    assert isinstance(model, Model), f"a model needs an async method complete, got {model!r}"
    sampling = sampling or Sampling(max_tokens=8, seed=1)
    for n in (1, 3):
        reply: Any = model.complete(prompt, n, sampling)
        assert inspect.isawaitable(reply), "complete() is not async: write `async def`"
        completions: Any = await reply
        listed = isinstance(completions, list | tuple)
        assert listed, f"complete() returns a list of completions, not {completions!r:.100}"
        assert len(completions) == n, f"requested {n} samples, got {len(completions)}"
        for completion in completions:
            require_consistent(completion, sampling, exact=exact)
    one = replace(sampling, max_tokens=1)
    for completion in await model.complete(prompt, 2, one):
        require_consistent(completion, one, exact=exact)
    await _check_prompts(model, prompt, sampling, exact)
    if stop is not None:
        await _check_stop(model, prompt, sampling, stop)
    if reproducible:
        await _check_seeds(model, prompt, sampling)
    await _check_concurrency(model, prompt, sampling, reproducible)
    await _check_cancellation(model, prompt, sampling)
    again = await asyncio.to_thread(asyncio.run, _complete(model, prompt, sampling))
    assert len(again) == 1, "it does not answer in a second event loop"


def require_consistent(completion: Completion, sampling: Sampling, *, exact: bool = False) -> None:
    """Check that the fields of one completion agree with each other and with its sampling settings."""
    with explained(AssertionError, f"the engine rejects {completion!r:.300}", ValueError, TypeError):
        checks.valid_completion(completion)  # as the engine does, which otherwise discards the tree
    logprobs, sampled, read = completion.logprobs, len(completion.token_ids), len(completion.prompt_ids)
    most, versions = sampling.max_tokens, completion.versions
    faults = {
        "finish_reason is unknown": completion.finish_reason not in get_args(FinishReason),
        "it was cut off below max_tokens: finish_reason must be 'context'": (
            completion.finish_reason == "length" and 0 < sampled < most
        ),
        "there are more tokens than max_tokens": max(completion.completion_tokens, sampled) > most,
        "logprobs has another length than token_ids": bool(logprobs) and len(logprobs) != sampled,
        "a log-probability is not at most 0": not all(value <= 0.0001 for value in logprobs),
        "completion_tokens is not the number of token_ids": sampled not in (0, completion.completion_tokens),
        "prompt_tokens is not the number of prompt_ids": read not in (0, completion.prompt_tokens),
        "the versions do not add up to the number of token_ids": (
            bool(versions) and sampled not in (0, sum(length for _, length in versions))
        ),
        "it reports another temperature than was set": completion.temperature != sampling.temperature,
        "the text contains a stop text": any(stop in completion.text for stop in sampling.stop),
        "it is not trainable: ids or log-probabilities are missing": exact and not completion.trainable,
    }
    reasons = "; ".join(fault for fault, is_there in faults.items() if is_there)
    assert not reasons, f"{reasons}: {completion!r:.500}, sampled with {sampling!r:.300}"


async def _check_prompts(model: Model, prompt: Prompt, sampling: Sampling, exact: bool) -> None:
    [from_chat] = await model.complete([{"role": "user", "content": "1 + 1 ="}], 1, sampling)
    require_consistent(from_chat, sampling, exact=exact)
    if exact:
        [first] = await model.complete(prompt, 1, sampling)
        [again] = await model.complete(first.prompt_ids, 1, sampling)
        assert again.prompt_ids == first.prompt_ids, "the model read other token ids than the prompt's"
        if first.finish_reason != "context":  # agents with tools go on after what was sampled
            follow = (*first.prompt_ids, *first.token_ids)
            [later] = await model.complete(follow, 1, replace(sampling, max_tokens=1))
            assert later.continues(first), "a prompt of sampled token ids is not read as it is"


async def _check_stop(model: Model, prompt: Prompt, sampling: Sampling, stop: str) -> None:
    stopping = replace(sampling, stop=(stop,))
    [free_one] = await model.complete(prompt, 1, sampling)
    [stopped_one] = await model.complete(prompt, 1, stopping)
    require_consistent(stopped_one, stopping)
    assert stop in free_one.text, f"choose a stop text that occurs: {stop!r} is not in {free_one.text!r}"
    ended = stopped_one.finish_reason == "stop" and stopped_one.text == free_one.text.partition(stop)[0]
    assert ended, f"the text {stopped_one.text!r} does not end before the stop text {stop!r}"


async def _check_seeds(model: Model, prompt: Prompt, sampling: Sampling) -> None:
    seeded = replace(sampling, seed=7)
    three = await model.complete(prompt, 3, seeded)
    again = await model.complete(prompt, 3, seeded)
    assert [*map(_sampled, three)] == [*map(_sampled, again)], "the same seed gives different completions"
    for i in range(2):
        fewer = await model.complete(prompt, i + 1, seeded)
        same = _sampled(fewer[i]) == _sampled(three[i])
        assert same, f"with the same seed, sample {i} of {i + 1} differs from sample {i} of 3"


async def _check_concurrency(model: Model, prompt: Prompt, sampling: Sampling, reproducible: bool) -> None:
    requests = [replace(sampling, seed=seed) for seed in range(CONCURRENCY)]
    answers = await asyncio.gather(*(model.complete(prompt, 1, request) for request in requests))
    single = all(len(answer) == 1 for answer in answers)
    assert single, f"{CONCURRENCY} concurrent requests did not get one completion each"
    if reproducible:
        [alone] = await model.complete(prompt, 1, requests[-1])
        assert _sampled(alone) == _sampled(answers[-1][0]), "a completion depends on concurrent requests"


async def _check_cancellation(model: Model, prompt: Prompt, sampling: Sampling) -> None:
    tasks = [asyncio.ensure_future(model.complete(prompt, 1, sampling)) for _ in range(4)]
    await asyncio.sleep(0)
    for task in tasks[:3]:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    whole = not isinstance(outcomes[3], BaseException) and len(outcomes[3]) == 1
    assert whole, f"cancelling a request broke another one: {outcomes[3]!r}"
    for outcome in outcomes[:3]:
        if isinstance(outcome, Exception):
            raise AssertionError(f"a cancelled request raised {outcome!r}") from outcome


async def _complete(model: Model, prompt: Prompt, sampling: Sampling) -> list[Completion]:
    return await model.complete(prompt, 1, sampling)


def _sampled(completion: Completion) -> tuple[str, tuple[int, ...], str]:
    return completion.text, completion.token_ids, completion.finish_reason
