"""A place in a game as an environment of OpenEnv, over the wire; its own client plays in tests/engines."""

import asyncio
import contextlib
import logging
import threading

import aiohttp
import pytest
from waiting import PATIENCE, until

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


@contextlib.asynccontextmanager
async def connected(url, **options):
    async with (
        asyncio.timeout(PATIENCE),
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{url}/ws", **options) as socket,
    ):
        yield socket


async def exchange(socket, **message):
    await socket.send_json(message)
    return await socket.receive_json()


async def test_a_client_plays_an_episode_that_the_environment_would_play(url):
    env = make()
    env.reset(seed=3)
    async with connected(url) as socket:
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
    async with connected(url) as first, connected(url) as second:
        sockets = [first, second]
        seen = await asyncio.gather(
            *(exchange(socket, type="reset", data={"seed": seed}) for seed, socket in enumerate(sockets))
        )
        assert seen[0]["data"]["observation"] != seen[1]["data"]["observation"]
        wrong = [
            {"type": "step", "data": {}},
            {"type": "dance"},
            {"data": 1},
            {"type": "reset", "data": 5},
        ]
        for message in wrong:
            answer = await exchange(sockets[0], **message)
            assert answer["type"] == "error" and answer["data"]["message"]
        await sockets[0].send_str("{")
        assert (await sockets[0].receive_json())["data"]["code"] == "INVALID_JSON"
        assert (await exchange(sockets[1], type="step", data={"text": "?"}))["data"]["reward"] == 0.0


async def test_a_step_outside_an_episode_is_told_to_reset(url):
    step = {"type": "step", "data": {"text": "?"}}
    async with connected(url) as socket:
        before = await exchange(socket, **step)
        await exchange(socket, type="reset")
        assert (await exchange(socket, **step))["data"]["done"]
        for answer in (before, await exchange(socket, **step)):
            assert answer["type"] == "error" and "reset" in answer["data"]["message"]


@pytest.fixture
async def thinking():
    """A server whose Verifier thinks until it is set free: its address, and the event that does so."""
    free = threading.Event()
    server = OpenEnvServer(make, "solver_0", PARTNERS | {"verifier": lambda seen: free.wait() and "Correct"})
    await server.start()
    yield server.url, free
    free.set()
    await server.close()


async def test_pings_are_answered_while_a_partner_thinks(thinking):
    """Clients of OpenEnv close a connection whose pings are not answered within 20 seconds."""
    url, free = thinking
    async with connected(url, autoping=False) as socket:
        await exchange(socket, type="reset")
        await socket.send_json({"type": "step", "data": {"text": "?"}})
        await socket.ping(b"there?")
        answer = await socket.receive()
        assert (answer.type, answer.data) == (aiohttp.WSMsgType.PONG, b"there?")
        free.set()
        assert (await socket.receive_json())["data"]["done"]


async def test_who_leaves_while_a_partner_thinks_leaves_no_error(thinking, caplog):
    url, free = thinking
    async with connected(url) as socket:
        await exchange(socket, type="reset")
        await socket.send_json({"type": "step", "data": {"text": "?"}})
    free.set()
    await until(lambda: not any(task.get_coro().__name__ == "_answer" for task in asyncio.all_tasks()))
    async with connected(url) as socket:
        await exchange(socket, type="reset")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_more_messages_than_may_wait_are_answered_in_their_order(thinking):
    url, free = thinking
    async with connected(url) as socket:
        await exchange(socket, type="reset")
        await socket.send_json({"type": "step", "data": {"text": "?"}})
        for number in range(50):
            await socket.send_json({"type": f"dance {number}"})
        free.set()
        answers = [await socket.receive_json() for _ in range(51)]
        assert answers[0]["data"]["done"]
        assert [str(n) in answer["data"]["message"] for n, answer in enumerate(answers[1:])] == [True] * 50
