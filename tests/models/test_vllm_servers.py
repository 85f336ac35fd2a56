"""New weights for servers; tests/engines/test_vllm_server.py has the real one."""

from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from http_app import served
from messages import raises

from mars_env.errors import ModelError
from mars_env.models import HTTPModel
from mars_env.models.vllm_servers import refresh_servers
from mars_env.types import Sampling


@asynccontextmanager
async def server(resets, status=200):
    """A stand-in that answers to each reset of its cache with the next of these, then with the last."""
    calls = []

    async def reload(request):
        calls.append((await request.json())["method"])
        return web.json_response({"results": [None]}, status=status)

    async def reset(request):
        calls.append("reset")
        told = resets[min(calls.count("reset"), len(resets)) - 1]
        return web.Response() if told is None else web.json_response({"success": told})

    async with served({"POST /collective_rpc": reload, "POST /reset_prefix_cache": reset}) as url:
        yield f"{url}/v1", calls


@pytest.mark.parametrize("resets", [[None], [True], [False, False, True]])
async def test_a_server_is_admitted_when_its_cache_is_empty(tmp_path, resets):
    async with server(resets) as (url, calls):
        model = HTTPModel(url, "m")
        await refresh_servers(model, tmp_path, version=7)
        assert calls == ["reload_weights", *["reset"] * len(resets)]
        assert model.version == 7


async def test_a_cache_of_the_old_weights_is_not_taken_for_one_of_the_new(tmp_path):
    async with server([False]) as (url, _):
        model = HTTPModel(url, "m", timeout=0.01, patience=0.01)
        with raises(ModelError):
            await refresh_servers(model, tmp_path, timeout=2.0)
        with raises(ModelError):
            await model.complete("p", 1, Sampling())


async def test_a_server_that_fails_is_told(tmp_path):
    async with server([True], status=500) as (url, calls):
        model = HTTPModel(url, "m")
        with raises(ModelError):
            await refresh_servers(model, tmp_path)
        assert calls == ["reload_weights"]
    async with server([True]) as (url, _):
        model = HTTPModel(f"{url}/elsewhere", "m")
        with raises(ModelError):
            await refresh_servers(model, tmp_path)
