"""Samplers that are lost, slow, wrong or hostile: the learner keeps its turns, and trains on nothing odd."""

import asyncio
import json
import threading
import time
from contextlib import asynccontextmanager

import aiohttp
import pytest
import swarm_run
from messages import raises

from mars_env.errors import ConfigError, ModelError, StoreError
from mars_env.models import tiny_model
from mars_env.models.requests import without_room
from mars_env.rollout import Job, collect
from mars_env.trainers.local import Policy
from mars_env.trainers.swarm import Swarm, SwarmSettings, run_sampler, wire
from mars_env.trainers.swarm.sampler import Connection
from mars_env.types import Action, Completion, Sampling
from studies.rubrics.lock import opener

GROUP = swarm_run.GROUP
OBSERVATION = {"problem": "p0_____>"}


@asynccontextmanager
async def learner(folder, keys=(), **options):
    trained = swarm_run.model()
    policies = {"opener": Policy(trained.module, trained.tokenizer)}
    chosen = SwarmSettings(**options)
    async with Swarm(swarm_run.AGENTS, policies, folder, chosen, keys=keys) as swarm:
        swarm.publish(policies)
        yield swarm


@asynccontextmanager
async def client(swarm, hello=True, headers=None, **hello_changes):
    """A sampler that says whatever a test wants, and reads asks and farewells."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{swarm.url}/v1/sampler", headers=headers or {}) as socket,
    ):
        if hello:
            await socket.send_json({"kind": "hello", "agents": swarm_run.AGENTS, "room": 1, **hello_changes})
        yield socket


async def heard(socket, kind):
    """The next message of this kind."""
    async with asyncio.timeout(20):
        while (message := await socket.receive_json())["kind"] != kind:
            pass
    return message


async def give(socket, ask, actions):
    await socket.send_json({"kind": "give", "ask": ask["id"], "actions": actions})


def act(swarm, n=1, seed=0):
    return asyncio.create_task(swarm.act("solver_0", OBSERVATION, n, seed))


def good(n=1, version=0, **changes):
    """Actions that a learner takes, and with changes those that it should not."""
    one = {
        "text": "ab", "finish_reason": "length", "prompt_ids": [2, 3], "token_ids": [10, 11],
        "logprobs": [-1.0, -2.0], "temperature": 1.0, "versions": [[version, 2]],
    }  # fmt: skip
    return [{"text": "ab", "completions": [{**one, **changes}]}] * n


class Slow:
    policy = "opener"

    async def act(self, observation, n, seed):
        await asyncio.sleep(600)


async def test_lost_sampler(tmp_path):
    async with learner(tmp_path) as swarm:
        acts = [act(swarm, GROUP, seed) for seed in range(3)]
        async with client(swarm, room=2) as odd:
            for _ in range(2):
                await heard(odd, "act")
            odd._response.connection.transport.abort()
            helper = asyncio.create_task(swarm_run.sample(swarm.url))
            answers = await asyncio.gather(*acts)
    assert await helper == 3
    again = swarm_run.model()
    for seed, actions in enumerate(answers):
        assert actions == await opener(again).act(OBSERVATION, GROUP, seed)  # as if none had been lost


async def test_silent_sampler(tmp_path):
    async with learner(tmp_path, lease=0.4) as swarm:
        acting = act(swarm)
        async with aiohttp.ClientSession() as session:
            odd = await session.ws_connect(f"{swarm.url}/v1/sampler", autoping=False)
            await odd.send_json({"kind": "hello", "agents": swarm_run.AGENTS, "room": 1})
            ask = await heard(odd, "act")
            async with client(swarm) as other:
                assert (await heard(other, "act"))["id"] == ask["id"]
                await give(other, ask, good())
                assert [action.text for action in await acting] == ["ab"]


async def test_second_answer(tmp_path):
    async with learner(tmp_path) as swarm, client(swarm) as odd, client(swarm) as other:
        acting = act(swarm)
        ask = await heard(odd, "act")
        await give(other, ask, good(text="cd"))  # not its own
        await give(odd, ask, good())
        await give(odd, ask, good(text="ef"))
        assert [action.completions[0].text for action in await acting] == ["ab"]


async def test_unwanted_asks(tmp_path):
    async with learner(tmp_path) as swarm, client(swarm) as odd:
        acting = act(swarm)
        ask = await heard(odd, "act")
        acting.cancel()
        assert (await heard(odd, "drop"))["ask"] == ask["id"]


@pytest.mark.parametrize("change", [
    {"token_ids": [10]}, {"logprobs": [-1.0]}, {"prompt_ids": []}, {"token_ids": [10, 10_000]},
    {"prompt_ids": [10_000]}, {"prompt_ids": [3] * 5000}, {"versions": [[0, 1]]}, {"versions": [[7, 2]]},
    {"versions": [[0, 4], [0, -2]]}, {"finish_reason": "context", "token_ids": []},
    {"logprobs": [float("nan"), -1.0]}, {"logprobs": [0.5, -1.0]}, {"logprobs": [-1.0, -9999.0]},
    {"token_ids": [-1, 1]}, {"temperature": 1e-9}, {"temperature": 0}, {"train_prompt_ids": [1]},
], ids=str)  # fmt: skip
async def test_untrainable_answers(tmp_path, change):
    async with learner(tmp_path) as swarm, client(swarm) as odd:
        acting = act(swarm)
        ask = await heard(odd, "act")
        await give(odd, ask, good(**change))
        assert (await heard(odd, "act"))["id"] == ask["id"]  # it is asked for again
        await give(odd, ask, good(logprobs=[0.004, -1.0]))
        [action] = await acting
        [completion] = action.completions  # rounding may lift a log-probability a little above 0
        assert completion.logprobs == (0.0, -1.0) and completion.completion_tokens == 2


@pytest.mark.parametrize("message", [
    b"\x80\x04pickle", b"[" * 3_000, b'{"kind": "give", "ask": "1", "grade": 1}', b"{}",
    b'{"kind": "hello", "room": 99999999, "agents": {"solver_0": "opener"}}',
    b'{"kind": "hello", "room": 1, "agents": {"solver_0": "other"}}',
    *(json.dumps({"kind": "give", "ask": "0", "actions": good(**change)}).encode() for change in
      ({"logprobs": ["x", -1]}, {"finish_reason": "because"}, {"versions": [[0]]}, {"text": None})),
])  # fmt: skip
async def test_malformed_messages(tmp_path, message):
    async with learner(tmp_path) as swarm, client(swarm, hello=False) as odd:
        await odd.send_bytes(message)
        assert (await heard(odd, "bye"))["why"]
        assert (await odd.receive()).type is aiohttp.WSMsgType.CLOSE and not swarm._samplers


async def test_long_message(tmp_path):
    async with learner(tmp_path, most=4000) as swarm, client(swarm) as odd:
        acting = act(swarm)
        ask = await heard(odd, "act")
        await give(odd, ask, good(text="x" * 5000))
        async with client(swarm) as other:
            await give(other, await heard(other, "act"), good())
            assert await acting


@pytest.mark.parametrize("path", ["..%2f..%2fsecret", "..%2f1/opener", "1/other", "9/opener", "1"])
async def test_unpublished_weights(tmp_path, path):
    (tmp_path / "secret.safetensors").write_text("secret")
    async with learner(tmp_path / "weights") as swarm, aiohttp.ClientSession() as session:
        for name, status in ((f"1/../{path}", 404), (path, 404), ("1/opener", 200)):
            async with session.get(f"{swarm.url}/v1/weights/{name}") as answer:
                assert answer.status == status


async def test_keys(tmp_path):
    async with learner(tmp_path, keys=["right key"]) as swarm, aiohttp.ClientSession() as session:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            for path in ("sampler", "weights/1/opener"):
                async with session.get(f"{swarm.url}/v1/{path}", headers=headers) as answer:
                    assert answer.status == 401
        with raises(ConfigError):
            await swarm_run.sample(swarm.url, key="wrong")
        helper = asyncio.create_task(swarm_run.sample(swarm.url, key="right key"))
        assert await swarm.act("solver_0", OBSERVATION, 1, 0)
    assert await helper == 1


async def test_web_page(tmp_path):
    async with learner(tmp_path) as swarm:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            async with client(swarm, headers={"Origin": "http://127.0.0.1"}):
                pass
        assert caught.value.status == 403


@pytest.mark.parametrize(
    "server", [{"host": "0.0.0.0"}, {"keys": [" "]}, {"agents": {"solver_0": "unknown"}}]
)
def test_wrong_arguments(tmp_path, server):
    policies = {"opener": Policy(swarm_run.model().module)}
    with raises(ConfigError):
        Swarm(**{"agents": swarm_run.AGENTS, "policies": policies, "weights": tmp_path, **server})


async def test_failing_agent(tmp_path):
    class Broken:
        policy = "opener"

        async def act(self, observation, n, seed):
            raise ModelError("its engine is out of memory")

    async with learner(tmp_path, attempts=2) as swarm:
        playing = swarm_run.model()
        broken = asyncio.create_task(run_sampler({"solver_0": Broken()}, {"opener": playing}, swarm.url))
        [tree] = await collect(swarm_run.game(), swarm.team.agents, [Job(swarm_run.problems()[0])], seed=0)
        assert "2 attempts failed" in tree.fault and "out of memory" in tree.fault
    assert await broken == 0


async def test_no_sampler(tmp_path):
    async with learner(tmp_path, patience=0.2) as swarm:
        with raises(ModelError):
            await swarm.act("solver_0", OBSERVATION, 1, 0)


async def test_no_learner(tmp_path):
    with raises(ModelError):
        await swarm_run.sample("http://127.0.0.1:9", patience=0.3)


async def test_weights_of_another_model(tmp_path):
    async with learner(tmp_path) as swarm:
        other = tiny_model(context=64)
        other.name = "opener"
        with raises(ConfigError):
            await run_sampler({"solver_0": opener(other)}, {"opener": other}, swarm.url)


async def test_weights_longer_than_the_model(tmp_path):
    async with learner(tmp_path) as swarm:
        [(publication, _)] = swarm._published
        with raises(ConfigError):
            await Connection(swarm.url, file_bytes=1000).fetch(publication)
        short = publication.policies["opener"].model_copy(update={"size": 1000})
        with raises(StoreError):
            await Connection(swarm.url).fetch(publication.model_copy(update={"policies": {"opener": short}}))


async def test_cancelled_sampler(tmp_path):
    async with learner(tmp_path, lease=60.0, attempts=1) as swarm:
        acting = act(swarm)
        slow = asyncio.create_task(
            run_sampler({"solver_0": Slow()}, {"opener": swarm_run.model()}, swarm.url)
        )
        while not any(opened.holder for opened in swarm._open.values()):
            await asyncio.sleep(0.01)
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        helper = asyncio.create_task(swarm_run.sample(swarm.url))
        assert slow.cancelled() and len(await acting) == 1  # that was no attempt
    await helper


async def test_connection_lost_while_weights_are_used(tmp_path):
    playing, begun = swarm_run.model(), threading.Event()
    refresh = playing.refresh

    def slow(tensors, version=None):
        if not begun.is_set():
            begun.set()
            time.sleep(0.3)
        refresh(tensors, version=version)

    playing.refresh = slow
    async with learner(tmp_path) as swarm:
        acting = act(swarm)
        helper = asyncio.create_task(swarm_run.sample(swarm.url, playing))
        assert await asyncio.to_thread(begun.wait, 60)
        [sampler] = swarm._samplers
        sampler.socket._req.transport.abort()
        assert len(await asyncio.wait_for(acting, 60)) == 1
    await helper


@pytest.mark.parametrize("length", [16, 20])
def test_a_prompt_that_fills_the_context(length):
    [empty] = without_room((1,) * length, 1, Sampling())
    sent = wire.Give(ask="1", actions=[Action("", (empty,))]).model_dump_json()
    actions = wire.Give.model_validate_json(sent).actions
    [action] = wire.received(actions, 1, (0, 0), vocabulary=8, context=16)
    assert action.interrupted
    more = Completion("4", "context", (1,) * length, (7,), (-0.5,), versions=((0, 1),))
    with pytest.raises(ValueError):
        wire.received([Action("", (more,))], 1, (0, 0), vocabulary=8, context=16)
