"""One question to every server before a run, so that what would spoil the run is said at once."""

import asyncio
import json
from collections.abc import Collection, Mapping
from typing import Any

from mars_env.errors import ConfigError, ModelError
from mars_env.models.http import CONTROL, HTTPModel
from mars_env.models.openai_dialect import keeps_logprobs
from mars_env.net import UNREADABLE
from mars_env.text import brief, logger, one_line, suggestion
from mars_env.types import Agent, Sampling

log = logger(__name__)

_INNER = ("model", "_model", "judge", "verifier", "grader", "selection", "visibility")

_DEEPEST = 8


async def preflight(agents: Mapping[str, Agent], game: object = None, trained: Collection[str] = ()) -> None:
    """Ask the servers of a run for their models: a wrong name, key or address ends the run before it starts.

    The list of models costs nothing. Only where a name is not in it, or exact tokens are wanted, each server
    is also asked for a completion of at most 16 tokens. Models of the game's graders are asked, too.

    Raises:
        ConfigError: A server refuses the key, does not have the model, or gives no token ids or
            log-probabilities of agents that are `trained`.
        ModelError: No server of a model can be reached.
    """
    for name, agent in agents.items():
        sampling = getattr(agent, "sampling", None)
        for model in _servers(agent):
            if (name in trained or model.exact) and (why := _untrainable(model, sampling)):
                if name in trained:
                    raise ConfigError(f"{name} is trained, but {why}")
                log.warning("turns of %s cannot be trained on later: %s", name, why)
    models = {id(model): model for player in (*agents.values(), game) for model in _servers(player)}
    await asyncio.gather(*(check_server(model) for model in models.values()))


def models_of(player: object) -> list[Any]:
    """The models that an agent, a grader or a game asks, and those inside them."""
    models: dict[int, Any] = {}
    holders: list[Any] = [player]
    for _ in range(_DEEPEST):
        inner = [getattr(holder, name, None) for holder in holders for name in _INNER]
        holders = [model for model in inner if model is not None and id(model) not in models]
        models |= {id(model): model for model in holders}
    return list(models.values())


def _servers(player: object) -> list[HTTPModel]:
    return [model for model in models_of(player) if isinstance(model, HTTPModel)]


def _untrainable(model: HTTPModel, sampling: object) -> str:
    if not model.exact:
        return f"{model.name} is not asked for token ids and log-probabilities: make it with exact=True"
    if model.biasing:
        fields = ", ".join(model.biasing)
        return f"{model.name} samples from another distribution: leave {fields} out of its extra_body"
    if isinstance(sampling, Sampling) and not keeps_logprobs(sampling, processed=model.processed):
        return (
            f"the log-probabilities of {model.name} are those of raw logits, before temperature "
            f"{sampling.temperature:g}, top_p and top_k: start vLLM with --logprobs-mode processed_logprobs "
            'and say logprobs="processed", or sample at temperature 1 from all tokens'
        )
    return ""


async def check_server(model: HTTPModel) -> None:
    """Raise an error, as `preflight` does, for a model whose servers cannot be used."""
    answers = await model.listed()
    lost = [f"{url}: {body.decode('utf-8', 'replace')}" for url, status, body in answers if status is None]
    if len(lost) == len(answers):
        raise ModelError(f"no server of {model.name} can be reached: {'; '.join(lost)}; start it first")
    for words in lost:
        log.warning("%s: a server cannot be reached: %s", model.name, words)
    for url, status, _ in answers:
        if status in (401, 403):
            raise ConfigError(f"{url} refuses the API key (status {status}): check what api_key_env names")
    there = [(url, model_names(body) if status == 200 else []) for url, status, body in answers if status]
    unsure = [
        (url, names) for url, names in there if model.exact or (names and model.model_name not in names)
    ]
    await asyncio.gather(*(_probe(model.at(url), names) for url, names in unsure))
    listed = {name for _, names in there for name in names}
    if listed and model.model_name not in listed:
        names = one_line(", ".join(sorted(listed)), 300)
        name = brief(model.model_name)
        log.warning("the server answers to the model name %s, but lists only %s: check it", name, names)


async def _probe(model: HTTPModel, names: list[str]) -> None:
    try:
        [completion] = await model.complete([{"role": "user", "content": "Hello"}], 1, CONTROL)
    except ModelError as error:
        if model.model_name in names or not names:
            raise
        listed = one_line(", ".join(names), 300)
        hint = suggestion(model.model_name, names)
        lacks = f"the server has no model {brief(model.model_name)}; it has {listed}{hint}"
        raise ConfigError(f"{lacks} ({error})") from error
    if model.exact and not completion.trainable:
        lacks = "log-probabilities" if completion.token_ids and completion.prompt_ids else "token ids"
        advice = "serve it by vLLM 0.10.2 or later (an HTTPModel without exact=True needs none)"
        raise ConfigError(f"{model.name} gives no {lacks} ({model.endpoints[0]}) to train on: {advice}")


def model_names(payload: bytes) -> list[str]:
    """Names in a server's list of models; empty for anything else."""
    try:
        return [one["id"] for one in json.loads(payload)["data"] if isinstance(one["id"], str)]
    except UNREADABLE:
        return []
