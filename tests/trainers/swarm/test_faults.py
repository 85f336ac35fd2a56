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
from mars_env.trainers.swarm import Swarm, run_sampler
from mars_env.trainers.swarm.sampler import Connection, HTTPWeights
from studies.rubrics.lock import opener

GROUP = swarm_run.GROUP
OBSERVATION = {"problem": "p0_____>"}


@asynccontextmanager
async def learner(folder, **options):
    trained = swarm_run.model()
    policies = {"opener": Policy(trained.module, trained.tokenizer)}
    async with Swarm(swarm_run.AGENTS, policies, folder, **{"lease": 0.4, **options}) as swarm:
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


async def test_others_get_the_asks_of_a_lost_sampler_and_no_answer_counts_twice(tmp_path):
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


async def test_a_slow_sampler_is_told_what_nobody_wants_any_more(tmp_path):
    async with learner(tmp_path) as swarm:
        act = asyncio.create_task(swarm.act("solver_0", OBSERVATION, 1, 0))
        odd = Client(swarm)
        [ask] = await odd.take()
        assert await odd.post("alive", {"asks": [ask["id"]]}) == (200, {"dropped": []})
        act.cancel()
        await asyncio.gather(act, return_exceptions=True)
        assert await odd.post("alive", {"asks": [ask["id"]]}) == (200, {"dropped": [ask["id"]]})


async def test_an_ask_that_is_said_to_be_given_but_did_not_arrive_is_given_again(tmp_path):
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


@pytest.mark.parametrize(("change", "why"), [
    ({"token_ids": [10]}, "one for each token"),
    ({"logprobs": [-1.0]}, "one for each token"),
    ({"prompt_ids": []}, "needed to train"),
    ({"token_ids": [10, 10_000]}, "beyond the vocabulary"),
    ({"prompt_ids": [10_000]}, "beyond the vocabulary"),
    ({"prompt_ids": [3] * 5000}, "where the context holds"),
    ({"versions": [[0, 1]]}, "do not cover"),
    ({"versions": [[7, 2]]}, "weights of version 7"),
    ({"finish_reason": "context", "token_ids": []}, "log-probabilities for 0 tokens"),
], ids=str)  # fmt: skip
async def test_an_answer_that_cannot_be_trained_on_is_refused_and_asked_for_again(tmp_path, change, why):
    async with learner(tmp_path) as swarm:
        act = asyncio.create_task(swarm.act("solver_0", OBSERVATION, 1, 0))
        odd = Client(swarm)
        [ask] = await odd.take()
        status, given = await odd.post("give", {"ask": ask["id"], "actions": good(**change)})
        assert (status, given["result"]) == (200, "refused") and why in given["why"]
        helper = asyncio.create_task(swarm_run.sample(swarm.url))
        assert len((await act)[0].completions[0].token_ids) == 5
    assert await helper == 1


@pytest.mark.parametrize("change", [
    {"logprobs": [float("nan"), -1.0]}, {"logprobs": [0.5, -1.0]}, {"logprobs": ["x", -1]},
    {"token_ids": [True, 1]}, {"token_ids": [-1, 1]}, {"temperature": 1e-9}, {"temperature": 0},
    {"finish_reason": "because"}, {"reward": 1.0}, {"versions": [[0, -2]]}, {"text": None},
], ids=str)  # fmt: skip
async def test_an_answer_of_another_form_is_refused_and_moves_nothing(tmp_path, change):
    async with learner(tmp_path) as swarm:
        act = asyncio.create_task(swarm.act("solver_0", OBSERVATION, 1, 0))
        odd = Client(swarm)
        [ask] = await odd.take()
        status, said = await odd.post("give", {"ask": ask["id"], "actions": good(**change)})
        assert status == 422 and "not of this protocol" in said["error"]["message"]
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
async def test_requests_of_another_form_are_refused(tmp_path, path, body, kind, status):
    async with learner(tmp_path, most=4000) as swarm:
        assert (await Client(swarm).post(path, {}, raw=body, kind=kind))[0] == status


@pytest.mark.parametrize("path", [
    "weights/1/..%2f..%2fsecret", "weights/..%2f1/opener", "weights/1/other", "weights/9/opener", "weights/1",
])  # fmt: skip
async def test_only_published_weights_are_served(tmp_path, path):
    (tmp_path / "secret.safetensors").write_text("secret")
    async with learner(tmp_path / "weights") as swarm:
        assert (await Client(swarm).get(path))[0] == 404
        assert (await Client(swarm).get("weights/1/opener"))[0] == 200


async def test_nothing_is_served_without_the_key(tmp_path):
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


@pytest.mark.parametrize("options", [
    {"host": "0.0.0.0"},
    {"keys": [" "]},
    {"lease": 0},
    {"stale": "wait"},
])  # fmt: skip
def test_a_swarm_with_wrong_arguments_is_refused(tmp_path, options):
    policies = {"opener": Policy(swarm_run.model().module)}
    with raises(ConfigError):
        Swarm(swarm_run.AGENTS, policies, tmp_path, **options)
    with raises(ConfigError):
        Swarm({"solver_0": "stranger"}, policies, tmp_path)


async def test_an_agent_that_always_fails_costs_its_tree_and_the_reason_is_told(tmp_path):
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


async def test_without_any_sampler_an_ask_ends_with_a_reason(tmp_path):
    async with learner(tmp_path, patience=0.2) as swarm:
        with raises(ModelError):
            await swarm.act("solver_0", OBSERVATION, 1, 0)


async def test_a_sampler_without_a_learner_ends(tmp_path):
    with raises(ModelError):
        await swarm_run.sample("http://127.0.0.1:9", patience=0.3)


async def test_weights_of_another_model_are_refused_in_one_sentence(tmp_path):
    async with learner(tmp_path) as swarm:
        other = tiny_model(context=64)
        with raises(ConfigError):
            await run_sampler({"solver_0": opener(_named(other))}, {"opener": other}, swarm.url)


async def test_weights_that_are_longer_than_the_model_are_not_fetched(tmp_path):
    async with learner(tmp_path) as swarm:
        connection = Connection(swarm.url)
        weights = HTTPWeights(connection, 1000)
        with raises(ConfigError):
            await weights.fetch(await weights.wait())


def _named(model):
    model.name = "opener"
    return model


async def test_a_sampler_that_leaves_hands_its_asks_back_at_once_and_no_attempt_counts(tmp_path):
    async with learner(tmp_path, lease=60.0, attempts=1) as swarm:
        act = asyncio.create_task(swarm.act("solver_0", OBSERVATION, 1, 0))
        leaving, other = Client(swarm, "leaving"), Client(swarm, "other")
        [ask] = await leaving.take()
        assert await leaving.post("leave", {}) == (200, {"asks": 1})
        assert "leaving" not in swarm._seen
        [again] = await other.take()
        assert again["id"] == ask["id"]
        assert await leaving.post("leave", {}) == (200, {"asks": 0})
        await other.post("give", {"ask": ask["id"], "actions": good()})
        assert [action.text for action in await act] == ["ab"]


async def test_a_sampler_that_left_while_it_waited_gets_nothing_any_more(tmp_path):
    async with learner(tmp_path, lease=60.0) as swarm:
        leaving = Client(swarm, "leaving")
        waits = asyncio.create_task(leaving.take())
        while "leaving" not in swarm._seen:
            await asyncio.sleep(0.01)
        await leaving.post("leave", {})
        act = asyncio.create_task(swarm.act("solver_0", OBSERVATION, 1, 0))
        assert await waits == []
        [ask] = await Client(swarm, "other").take()
        await Client(swarm, "other").post("give", {"ask": ask["id"], "actions": good()})
        await act


async def test_a_cancelled_sampler_tells_its_learner(tmp_path):
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
        assert slow.cancelled() and not opened.holder and not swarm._seen
        helper = asyncio.create_task(swarm_run.sample(swarm.url))
        assert len(await act) == 1
    await helper
