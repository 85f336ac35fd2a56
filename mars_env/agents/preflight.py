"""One question to every server before a run: a wrong name, a wrong key or a lost server is told at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from mars_env.agents.http import HTTPModel
from mars_env.errors import ConfigError, ModelError
from mars_env.text import logger, one_line, shown, suggestion
from mars_env.types import Agent, Sampling

log = logger(__name__)

_PROBE = Sampling(max_tokens=16, temperature=1.0, overflow="unknown")
"""Some servers refuse smaller limits."""


async def preflight(agents: Mapping[str, Agent]) -> None:
    """Ask the servers of a team for their models.

    The list of models costs nothing. Only where a name is not in it, or exact tokens are wanted, is a
    completion of at most 16 tokens asked for as well.

    Args:
        agents: By name; those without a model behind a server are left alone.

    Raises:
        ConfigError: A server refuses the key, does not have the model, or gives no token ids.
        ModelError: No server of a model can be reached.
    """
    models = {id(model): model for agent in agents.values() if (model := getattr(agent, "model", None))}
    await asyncio.gather(*(_check(model) for model in models.values() if isinstance(model, HTTPModel)))


async def _check(model: HTTPModel) -> None:
    answers = await model.listed()
    lost = [f"{url}: {body.decode('utf-8', 'replace')}" for url, status, body in answers if status is None]
    if len(lost) == len(answers):
        raise ModelError(f"no server of {model.name} can be reached: {'; '.join(lost)}; start it first")
    for words in lost:
        log.warning("%s: a server cannot be reached: %s", model.name, words)
    unsure = model.exact
    for url, status, body in answers:
        if status in (401, 403):
            raise ConfigError(
                f"{url} refuses the API key (status {status}): name the environment variable that holds the "
                "right one with ?api_key_env=NAME"
            )
        names = model_names(body) if status == 200 else []
        unsure |= bool(names) and model.model_name not in names
    if unsure:
        await _probe(model, sorted({name for _, _, body in answers for name in model_names(body)}))


async def _probe(model: HTTPModel, names: list[str]) -> None:
    """One completion: whether the model is there, and its tokens are exact where that is asked for."""
    try:
        [completion] = await model.complete([{"role": "user", "content": "Hello"}], 1, _PROBE)
    except ModelError as error:
        if model.model_name in names:
            raise
        listed = one_line(", ".join(names), 300) or "none"
        hint = suggestion(model.model_name, names)
        raise ConfigError(
            f"the server has no model {shown(model.model_name)}; it has {listed}{hint} ({error})"
        ) from error
    if model.exact and not completion.token_ids:
        raise ConfigError(
            f"{model.name} gives no token ids, which exact=True asks for: serve it by vLLM 0.10.2 or later, "
            "or leave exact out"
        )


def model_names(payload: bytes) -> list[str]:
    """Names in a server's list of models; empty for anything else.

    Example:
        >>> model_names(b'{"data": [{"id": "qwen3"}]}'), model_names(b"not JSON")
        (['qwen3'], [])
    """
    try:
        return [one["id"] for one in json.loads(payload)["data"] if isinstance(one["id"], str)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
