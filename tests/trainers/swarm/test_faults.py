"""Samplers that are lost, slow, wrong or hostile: the learner keeps its turns, and trains on nothing odd."""

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest
import swarm_run
from messages import raises

from mars_env.errors import ConfigError, ModelError
from mars_env.models import tiny_model
from mars_env.rollout import Job, collect
from mars_env.trainers.local import Policy
from mars_env.trainers.swarm import Swarm, SwarmSettings, run_sampler
from mars_env.trainers.swarm.sampler import Connection
from studies.rubrics.lock import opener

GROUP = swarm_run.GROUP
OBSERVATION = {"problem": "p0_____>"}


@asynccontextmanager
async def learner(folder, keys=(), **options):
    trained = swarm_run.model()
    policies = {"opener": Policy(trained.module, trained.tokenizer)}
    chosen = SwarmSettings(**{"lease": 0.4, **options})
    async with Swarm(swarm_run.AGENTS, policies, folder, chosen, keys=keys) as swarm:
        swarm.publish(policies)
        yield swarm


class Client:
    """Says to a learner whatever a test wants."""

    def __init__(self, swarm, name="odd", key=""):
        self.swarm, self.name = swarm, name
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def post(self, path, body, raw=None, kind="application/json"):
        headers = {**self.headers, "Content-Type": kind}
        data = raw if raw is not None else json.dumps({"sampler": self.name, **body})
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.swarm.url}/v1/{path}", data=data, headers=headers) as answer,
        ):
            return answer.status, json.loads(await answer.text())

    async def get(self, path):
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.swarm.url}/v1/{path}", headers=self.headers) as answer,
        ):
            return answer.status, await answer.read()

    async def take(self, room=1):
        status, taken = await self.post("take", {"agents": swarm_run.AGENTS, "room": room})
        assert status == 200
        return taken["asks"]


def good(n=1, version=0, **changes):
    """Actions that a learner takes, and with changes those that it should not."""
    one = {
        "text": "ab", "finish_reason": "length", "prompt_ids": [2, 3], "token_ids": [10, 11],
        "logprobs": [-1.0, -2.0], "temperature": 1.0, "versions": [[version, 2]],
    }  # fmt: skip
    return [{"text": "ab", "completions": [{**one, **changes}]}] * n


async def test_lost_sampler(tmp_path):
    async with learner(tmp_path) as swarm:
        acts = [asyncio.create_task(swarm.act("solver_0", OBSERVATION, GROUP, seed)) for seed in range(3)]
        odd = Client(swarm)
        taken = await odd.take(room=2)
        assert len(taken) == 2  # and then it says nothing any more
        helper = asyncio.create_task(swarm_run.sample(swarm.url))
        answers = await asyncio.gather(*acts)
        late = await odd.post("give", {"ask": taken[0]["id"], "actions": good(GROUP)})
        assert late == (200, {"result": "unwanted", "why": ""})
    assert await helper == 3
    again = swarm_run.model()
    for seed, actions in enumerate(answers):
        assert actions == await opener(again).act(OBSERVATION, GROUP, seed)  # as if none had been lost


async def test_unwanted_asks(tmp_path):
    async with learner(tmp_path) as swarm:
        act = asyncio.create_task(swarm.act("solver_0", OBSERVATION, 1, 0))
        odd = Client(swarm)
        [ask] = await odd.take()
        assert await odd.post("alive", {"asks": [ask["id"]]}) == (200, {"dropped": []})
        act.cancel()
        await asyncio.gather(act, return_exceptions=True)
        assert await odd.post("alive", {"asks": [ask["id"]]}) == (200, {"dropped": [ask["id"]]})


async def test_lost_ask(tmp_path):
    async with learner(tmp_path) as swarm:
        act = asyncio.create_task(swarm.act("solver_0", OBSERVATION, 1, 0))
        odd = Client(swarm)
        [ask] = await odd.take()
        for _ in range(3):
            await asyncio.sleep(0.15)
            await odd.post("alive", {"asks": []})
        [again] = await odd.take()
        assert again["id"] == ask["id"]
        await odd.post("give", {"ask": ask["id"], "actions": good()})
        assert [action.text for action in await act] == ["ab"]


@pytest.mark.parametrize("change", [
    {"token_ids": [10]}, {"logprobs": [-1.0]}, {"prompt_ids": []}, {"token_ids": [10, 10_000]},
    {"prompt_ids": [10_000]}, {"prompt_ids": [3] * 5000}, {"versions": [[0, 1]]}, {"versions": [[7, 2]]},
    {"versions": [[0, 4], [0, -2]]}, {"finish_reason": "context", "token_ids": []},
    {"logprobs": [float("nan"), -1.0]}, {"logprobs": [0.5, -1.0]}, {"logprobs": [-1.0, -9999.0]},
    {"token_ids": [-1, 1]}, {"temperature": 1e-9}, {"temperature": 0}, {"train_prompt_ids": [1]},
], ids=str)  # fmt: skip
async def test_untrainable_answers(tmp_path, change):
    async with learner(tmp_path) as swarm:
        act = asyncio.create_task(swarm.act("solver_0", OBSERVATION, 1, 0))
        odd = Client(swarm)
        [ask] = await odd.take()
        status, given = await odd.post("give", {"ask": ask["id"], "actions": good(**change)})
        assert (status, given["result"]) == (200, "refused") and given["why"]
        [again] = await odd.take()  # it is asked for again
        assert again["id"] == ask["id"]
        await odd.post("give", {"ask": ask["id"], "actions": good(logprobs=[0.004, -1.0])})
        [action] = await act
        [completion] = action.completions  # rounding may lift a log-probability a little above 0
        assert completion.logprobs == (0.0, -1.0) and completion.completion_tokens == 2


@pytest.mark.parametrize("change", [
    {"logprobs": ["x", -1]}, {"finish_reason": "because"}, {"versions": [[0]]}, {"text": None},
], ids=str)  # fmt: skip
async def test_malformed_answers(tmp_path, change):
    async with learner(tmp_path) as swarm:
        act = asyncio.create_task(swarm.act("solver_0", OBSERVATION, 1, 0))
        odd = Client(swarm)
        [ask] = await odd.take()
        assert (await odd.post("give", {"ask": ask["id"], "actions": good(**change)}))[0] == 422
        assert not act.done()
        await odd.post("give", {"ask": ask["id"], "actions": good()})
        assert await act


@pytest.mark.parametrize(("path", "body", "kind", "status"), [
    ("take", b"\x80\x04pickle", "application/json", 422),
    ("take", b"[" * 3_000, "application/json", 422),
    ("give", b'{"sampler": "s", "ask": "1", "grade": 1}', "application/json", 422),
    ("give", b"x" * 5000, "application/json", 413),
    ("take", b"{}", "text/plain", 415),
    ("take", b'{"sampler": "s", "room": 99999999, "agents": {}}', "application/json", 422),
    ("take", b'{"sampler": "s", "room": 1, "agents": {"solver_0": "other"}}', "application/json", 400),
], ids=["bytes", "deep", "more", "long", "kind", "room", "team"])  # fmt: skip
async def test_malformed_requests(tmp_path, path, body, kind, status):
    async with learner(tmp_path, most=4000) as swarm:
        assert (await Client(swarm).post(path, {}, raw=body, kind=kind))[0] == status


@pytest.mark.parametrize("path", [
    "weights/1/..%2f..%2fsecret", "weights/..%2f1/opener", "weights/1/other", "weights/9/opener", "weights/1",
])  # fmt: skip
async def test_unpublished_weights(tmp_path, path):
    (tmp_path / "secret.safetensors").write_text("secret")
    async with learner(tmp_path / "weights") as swarm:
        assert (await Client(swarm).get(path))[0] == 404
        assert (await Client(swarm).get("weights/1/opener"))[0] == 200


async def test_keys(tmp_path):
    async with learner(tmp_path, keys=["right key"]) as swarm:
        for client in (Client(swarm), Client(swarm, key="wrong")):
            for path in ("take", "give", "alive"):
                assert (await client.post(path, {}))[0] == 401
            for path in ("weights", "weights/1/opener"):
                assert (await client.get(path))[0] == 401
        with raises(ConfigError):
            await swarm_run.sample(swarm.url, key="wrong")
        helper = asyncio.create_task(swarm_run.sample(swarm.url, key="right key"))
        assert await swarm.act("solver_0", OBSERVATION, 1, 0)
    assert await helper == 1


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
        with raises(ConfigError):
            await run_sampler({"solver_0": opener(_named(other))}, {"opener": other}, swarm.url)


async def test_weights_longer_than_the_model(tmp_path):
    async with learner(tmp_path) as swarm:
        weights = Connection(swarm.url, file_bytes=1000)
        with raises(ConfigError):
            await weights.fetch(await weights.wait())


def _named(model):
    model.name = "opener"
    return model


async def test_leaving_sampler(tmp_path):
    async with learner(tmp_path, lease=60.0, attempts=1) as swarm:
        act = asyncio.create_task(swarm.act("solver_0", OBSERVATION, 1, 0))
        leaving, other = Client(swarm, "leaving"), Client(swarm, "other")
        [ask] = await leaving.take()
        assert await leaving.post("alive", {"leaves": True}) == (200, {"dropped": []})
        assert "leaving" not in swarm._samplers
        [again] = await other.take()
        assert again["id"] == ask["id"]
        await other.post("give", {"ask": ask["id"], "actions": good()})
        assert [action.text for action in await act] == ["ab"]


async def test_sampler_that_left_while_it_waited(tmp_path):
    async with learner(tmp_path, lease=60.0) as swarm:
        leaving = Client(swarm, "leaving")
        waits = asyncio.create_task(leaving.take())
        while "leaving" not in swarm._samplers:
            await asyncio.sleep(0.01)
        await leaving.post("alive", {"leaves": True})
        act = asyncio.create_task(swarm.act("solver_0", OBSERVATION, 1, 0))
        assert await waits == []
        [ask] = await Client(swarm, "other").take()
        await Client(swarm, "other").post("give", {"ask": ask["id"], "actions": good()})
        await act


async def test_cancelled_sampler(tmp_path):
    class Slow:
        policy = "opener"

        async def act(self, observation, n, seed):
            await asyncio.sleep(600)

    async with learner(tmp_path, lease=60.0) as swarm:
        act = asyncio.create_task(swarm.act("solver_0", OBSERVATION, 1, 0))
        slow = asyncio.create_task(
            run_sampler({"solver_0": Slow()}, {"opener": swarm_run.model()}, swarm.url)
        )
        [opened] = swarm._open.values() if swarm._open else [None]
        while opened is None or not opened.holder:
            await asyncio.sleep(0.01)
            [opened] = swarm._open.values() or [None]
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        assert slow.cancelled() and not opened.holder and not swarm._samplers
        helper = asyncio.create_task(swarm_run.sample(swarm.url))
        assert len(await act) == 1
    await helper
