"""New weights for the servers (`vllm serve`) behind an `HTTPModel`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from mars_env.agents.http import HTTPModel
from mars_env.errors import ConfigError, ModelError


async def refresh_servers(
    model: HTTPModel, directory: str | Path, version: int | None = None, *, timeout: float = 600.0
) -> None:
    """Replace the weights of all servers in place; requests wait until it is done.

    The servers are drained, refreshed and admitted again. They must be vLLM's, started with
    ``VLLM_SERVER_DEV_MODE=1`` in their environment: this opens endpoints to anyone who reaches the port, so
    use it only in your own network.

    Args:
        model: The servers' client.
        directory: A checkpoint (``save_pretrained``) that every server can read at this path.
        version: The new version; by default one more than the old.
        timeout: Seconds that a server may take.

    Raises:
        ConfigError: If there is no such directory.
        ModelError: If a server failed. It is left drained, so that old weights are not taken for new
            ones; the others continue.

    Example:
        >>> from mars_env.sync import run_sync
        >>> run_sync(refresh_servers(HTTPModel("http://localhost:8000/v1", "m"), "nowhere"))
        Traceback (most recent call last):
        ...
        mars_env.errors.ConfigError: there is no checkpoint at nowhere
    """
    if not Path(directory).is_dir():
        raise ConfigError(f"there is no checkpoint at {directory}")
    endpoints = model.endpoints
    await asyncio.gather(*(model.drain(endpoint) for endpoint in endpoints))
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout)) as session:
        failures = await asyncio.gather(*(_refresh(session, url, str(directory)) for url in endpoints))
    model.version = model.version + 1 if version is None else version
    for endpoint, failure in zip(endpoints, failures, strict=True):
        if not failure:
            model.admit(endpoint)
    if any(failures):
        raise ModelError(
            f"{model.name}: not refreshed, and left drained: {'; '.join(filter(None, failures))}"
        )


async def _refresh(session: aiohttp.ClientSession, endpoint: str, directory: str) -> str:
    """Refresh one server; returns what went wrong, or nothing."""
    root = endpoint.rstrip("/").removesuffix("/v1")
    calls: list[tuple[str, Mapping[str, Any]]] = [
        ("collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": directory}}),
        ("reset_prefix_cache", {}),  # it holds values of the old weights
    ]
    try:
        for path, body in calls:
            async with session.post(f"{root}/{path}", json=body) as response:
                if response.status == 404:
                    return f"{endpoint} has no /{path}: start it with VLLM_SERVER_DEV_MODE=1"
                if response.status != 200:
                    return f"{endpoint}: status {response.status}: {(await response.text())[:200]}"
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return f"{endpoint}: {type(error).__name__}: {error}"
    return ""
