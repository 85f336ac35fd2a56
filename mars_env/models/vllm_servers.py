"""New weights for the servers (`vllm serve`) behind an `HTTPModel`."""

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mars_env.errors import ConfigError, ModelError
from mars_env.models.http import HTTPModel
from mars_env.net import NETWORK_ERRORS, request
from mars_env.text import one_line

_ANSWER_BYTES = 2**20
"""Longest answer that is read."""

_PAUSE = 0.05
"""Seconds between two attempts to empty a cache."""


async def refresh_servers(
    model: HTTPModel, directory: str | Path, version: int | None = None, *, timeout: float = 600.0
) -> None:
    """Replace the weights of all servers in place; requests wait until it is done.

    The servers must be vLLM's, started with ``VLLM_SERVER_DEV_MODE=1`` in their environment: this opens
    endpoints to anyone who reaches the port, so use it only in your own network.

    Args:
        model: The servers' client.
        directory: A checkpoint (``save_pretrained``) that every server can read at this path.
        version: The new version; by default one more than the old.
        timeout: Seconds that a server may take; also for requests of other clients to end, since vLLM keeps
            its prefix cache while they run.

    Raises:
        ConfigError: There is no such directory.
        ModelError: A server failed. It is left drained, so that old weights are not taken for new ones.
    """
    if not Path(directory).is_dir():
        raise ConfigError(f"there is no checkpoint at {directory}")
    endpoints = model.endpoints
    await asyncio.gather(*(model.drain(endpoint) for endpoint in endpoints))
    failures = await asyncio.gather(*(_refresh(url, str(directory), timeout) for url in endpoints))
    model.version = model.version + 1 if version is None else version
    for endpoint, failure in zip(endpoints, failures, strict=True):
        if not failure:
            model.admit(endpoint)
    if any(failures):
        why = "; ".join(filter(None, failures))
        raise ModelError(f"{model.name}: not refreshed, and left drained: {why}")


async def _refresh(endpoint: str, directory: str, timeout: float) -> str:
    """Refresh one server; returns what went wrong, or nothing."""
    until = time.monotonic() + timeout
    root = endpoint.rstrip("/").removesuffix("/v1")
    reload = {"method": "reload_weights", "kwargs": {"weights_path": directory}}
    try:
        await _call(f"{root}/collective_rpc", reload, timeout)
        # The cache holds values of the old weights. vLLM says under status 200 that it has kept it.
        while not await _call(f"{root}/reset_prefix_cache", {}, timeout):
            if time.monotonic() > until:
                return f"{endpoint} keeps its prefix cache, since requests of other clients run on it"
            await asyncio.sleep(_PAUSE)
    except ModelError as failure:
        return str(failure)
    except NETWORK_ERRORS as error:
        return f"{endpoint}: {type(error).__name__}: {error}"
    return ""


async def _call(url: str, body: Mapping[str, Any], timeout: float) -> bool:
    """Call a server; whether it has done what it was asked, as far as it says; else a `ModelError`."""
    answer = await request("POST", url, _ANSWER_BYTES, timeout, json=body)
    if answer.status == 404:
        raise ModelError(f"{url} is not there: start the server with VLLM_SERVER_DEV_MODE=1")
    if answer.status != 200:
        words = one_line(answer.body.decode("utf-8", "replace"), 200)
        raise ModelError(f"{url}: status {answer.status}: {words}")
    try:
        found = json.loads(answer.body)
    except ValueError:  # versions before 0.32 answer with nothing
        return True
    return not isinstance(found, dict) or found.get("success") is not False
