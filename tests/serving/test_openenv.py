"""A place in a game as an environment of OpenEnv, over the wire and, where it is installed, by its client."""

import asyncio

import aiohttp
import pytest

import mars_env
from mars_env.serving.openenv import OpenEnvServer

GAME = "arithmetic-solve-verify-correct"
PARTNERS = {"verifier": lambda seen: "Correctness: Correct", "corrector": lambda seen: "?"}


def make():
    return mars_env.make(GAME, schedule="training", rounds=1)


@pytest.fixture
async def url():
    server = OpenEnvServer(make, "solver_0", PARTNERS)
    await server.start()
    yield server.url
    await server.close()


async def exchange(socket, **message):
    await socket.send_json(message)
    return await socket.receive_json()


async def test_a_client_plays_an_episode_that_the_environment_would_play(url):
    env = make()
    env.reset(seed=3)
    async with aiohttp.ClientSession() as http, http.ws_connect(f"{url}/ws") as socket:
        first = await exchange(socket, type="reset", data={"seed": 3})
        seen = first["data"]["observation"]
        assert seen["problem"] == env.observe("solver_0")["problem"] in seen["messages"][-1]["content"]
        assert not first["data"]["done"]
        right = rf"\boxed{{{env.problem.reference}}}"
        last = await exchange(socket, type="step", data={"text": right})
        assert last["data"]["reward"] == 1.0 and last["data"]["done"]
        assert (await exchange(socket, type="state"))["data"]["step_count"] == 1
        assert "reference" not in str(first) and "reference" not in str(last)


async def test_sessions_are_apart_and_mistakes_are_answers(url):
    async with aiohttp.ClientSession() as http:
        sockets = [await http.ws_connect(f"{url}/ws") for _ in range(2)]
        seen = await asyncio.gather(
            *(exchange(socket, type="reset", data={"seed": seed}) for seed, socket in enumerate(sockets))
        )
        assert seen[0]["data"]["observation"] != seen[1]["data"]["observation"]
        for message in (
            {"type": "step", "data": {}},
            {"type": "dance"},
            {"data": 1},
            {"type": "reset", "data": 5},
        ):
            answer = await exchange(sockets[0], **message)
            assert answer["type"] == "error" and answer["data"]["message"]
        await sockets[0].send_str("{")
        assert (await sockets[0].receive_json())["data"]["code"] == "INVALID_JSON"
        assert (await exchange(sockets[1], type="step", data={"text": "?"}))["data"]["reward"] == 0.0
        for socket in sockets:
            await socket.close()


async def test_openenvs_own_client_plays(url):
    client = pytest.importorskip("openenv.core.generic_client", reason="openenv is not installed")
    async with client.GenericEnvClient(base_url=url) as env:
        result = await env.reset(seed=3)
        assert "problem" in result.observation and not result.done
        result = await env.step({"text": r"\boxed{1000}"})
        assert result.done and result.reward == 0.0
