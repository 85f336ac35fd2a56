"""A team behind one endpoint, talked to by the official client and by `mars-env evaluate`."""

import asyncio
import contextlib
import json
import subprocess

import aiohttp
import pytest
from command_line import command

from mars_env.agents import Solver
from mars_env.evaluation.trees import prompt_tokens, sampled_tokens
from mars_env.models import HTTPModel, ScriptedModel
from mars_env.rollout import read_run
from mars_env.serving import Answerer, TeamServer
from mars_env.serving import server as server_module
from mars_env.types import Sampling

openai = pytest.importorskip("openai", reason="the official client is not installed: pip install openai")

GOOD = ScriptedModel(lambda prompt, sample, seed: f"Step {seed % 97}. \\boxed{{4}}\nCorrectness: Correct")
QUESTION = {"role": "user", "content": "What is 2 + 2?"}


@contextlib.asynccontextmanager
async def serving(agents=GOOD, env_id="solve-verify-correct", kind=None, rules=None, **options):
    async with TeamServer(Answerer(env_id, agents, kind=kind, **(rules or {})), **options) as server:
        yield server


def client(server, key="none"):
    return openai.AsyncOpenAI(base_url=server.url, api_key=key, max_retries=0)


async def ask(who, *messages, model="solve-verify-correct", **options):
    return await who.chat.completions.create(
        model=model, messages=list(messages) or [QUESTION], extra_body=options.pop("extra", None), **options
    )


def tokens_of(trees):
    """Tokens sampled and read in all turns."""
    turns = [turn for tree in trees for turn in tree.turns]
    return sum(map(sampled_tokens, turns)), sum(map(prompt_tokens, turns))


async def test_sixty_four_questions_at_once_cost_what_their_turns_cost(tmp_path):
    async with serving(out=tmp_path, concurrency=64) as server, client(server) as who:
        assert [model.id async for model in who.models.list()] == ["solve-verify-correct"]
        users = [{"role": "user", "content": f"What is {number} + 1?"} for number in range(64)]
        answers = await asyncio.gather(*(ask(who, user) for user in users))
    trees = {tree.id: tree for tree in read_run(tmp_path).trees}
    assert len(trees) == 64
    for answer in answers:
        [told] = answer.model_extra["mars_env"]
        tree = trees[told["tree"]]
        assert (answer.usage.completion_tokens, answer.usage.prompt_tokens) == tokens_of([tree]) > (0, 0)
        assert answer.choices[0].message.content == tree.turns[0].text
        assert (told["answer"], told["confidence"]) == ("4", 1.0)
        assert [turn.grade for turn in tree.turns] == [None] * 5
        assert tree.problem.reference is None


async def test_a_stream_tells_of_each_turn_in_comments_and_ends_with_the_answer():
    body = {"messages": [QUESTION], "stream": True}
    async with serving() as server, client(server) as who:
        stream = await ask(who, stream=True, stream_options={"include_usage": True})
        chunks = [chunk async for chunk in stream]
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert "\\boxed{4}" in text
        assert chunks[-1].usage.completion_tokens == chunks[-2].model_extra["mars_env"][0]["tokens"]
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{server.url}/chat/completions", json=body) as answer,
        ):
            lines = (await answer.text()).split("\n\n")
    assert all(line.startswith(":") for line in lines[:5]) and lines[5].startswith("data: {")
    assert lines[-2] == "data: [DONE]"


async def test_the_same_seed_gives_the_same_answer_and_no_seed_gives_others():
    async with serving() as server, client(server) as who:
        seeded = [(await ask(who, seed=7, n=2)).choices for _ in range(2)]
        free = {(await ask(who)).choices[0].message.content for _ in range(5)}
    assert [c.message.content for c in seeded[0]] == [c.message.content for c in seeded[1]]
    assert seeded[0][0].message.content != seeded[0][1].message.content
    assert len(free) > 1


async def test_a_repeated_request_is_answered_from_the_store_and_reads_no_other_answer(tmp_path):
    calls, other = [], {"role": "user", "content": "What is 3 + 3?"}

    def counted(observation):
        calls.append(observation)
        return "\\boxed{4}\nCorrectness: Correct"

    async with serving(counted, out=tmp_path) as server, client(server) as who:
        await ask(who, other, seed=1)
        first = await ask(who, seed=1)
    async with serving(counted, out=tmp_path) as server, client(server) as who:
        assert (await ask(who, seed=1)).choices == first.choices
        with (tmp_path / "turns.jsonl").open("r+b") as file:
            file.write(b"x")  # the first row cannot be read any more
        with pytest.raises(openai.InternalServerError):
            await ask(who, other, seed=1)
        assert (await ask(who, seed=1)).choices == first.choices
    assert len(calls) == 2 * 5


async def test_a_conversation_with_calls_of_tools_is_one_question():
    seen = []

    def noted(observation):
        seen.append(observation["problem"])
        return "Correctness: Correct \\boxed{9}"

    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}
    asks = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "4"}
    last = {"role": "user", "content": "And 4 + 5?"}
    async with serving(noted) as server, client(server) as who:
        await ask(who, {"role": "system", "content": "Be brief."}, QUESTION, asks, result, last)
        with pytest.raises(openai.BadRequestError):
            await ask(who, QUESTION, {**asks, "content": 7}, last)
    texts = ("Be brief.", "User: What is 2 + 2?", '{"name": "add", "arguments": {"a": 2}}', "Tool: 4")
    places = [seen[0].index(text) for text in (*texts, "User: And 4 + 5?")]
    assert places == sorted(places)


async def test_too_many_questions_are_sent_away():
    gate = asyncio.Event()

    async def patient(observation):
        await gate.wait()
        return "\\boxed{4}"

    async with serving(patient, "solve", concurrency=1, waiting=1) as server, client(server) as who:
        first = [asyncio.create_task(ask(who, model="solve")) for _ in range(2)]
        while server._expected < 2:
            await asyncio.sleep(0)
        with pytest.raises(openai.RateLimitError) as refused:
            await ask(who, model="solve")
        with pytest.raises(openai.BadRequestError):  # waiting would not help
            await ask(who, model="solve", n=3)
        gate.set()
        assert all(answer.choices for answer in await asyncio.gather(*first))
    assert refused.value.response.headers["retry-after"] == "5"


async def test_a_fault_is_no_answer_and_the_next_request_continues(tmp_path):
    """The Verifier fails once; the Solver's turn is kept, and the same request continues from there."""
    acts = []

    def solver(observation):
        acts.append("solver")
        return "\\boxed{4}"

    def verifier(observation):
        acts.append("verifier")
        if acts.count("verifier") == 2:
            raise RuntimeError("lost")
        return "Correctness: Correct"

    team = {"solver": solver, "verifier": verifier, "corrector": lambda seen: ""}
    async with serving(team, out=tmp_path) as server, client(server) as who:
        with pytest.raises(openai.InternalServerError):
            await ask(who)
        stream = await ask(who, stream=True)
        async for _ in stream:
            pass
    assert acts == ["solver", *["verifier"] * 5]
    [tree] = read_run(tmp_path).trees
    assert (len(tree.turns), tree.final) == (5, "0")


class Stuck:
    """An agent that never answers."""

    policy = "stuck"

    async def act(self, observation, n, seed):
        await asyncio.Event().wait()


@pytest.mark.parametrize("stream", [False, True])
async def test_who_asks_a_server_that_stops_gets_an_error(monkeypatch, stream):
    monkeypatch.setattr(server_module, "_GRACE", 0.2)
    body = {"model": "arithmetic-solve", "messages": [QUESTION], "stream": stream}
    async with aiohttp.ClientSession() as session, serving(Stuck(), "arithmetic-solve") as server:

        async def asked():
            async with session.post(f"{server.url}/chat/completions", json=body) as response:
                return response.status, (await response.text()).removeprefix("data: ")

        asking = [asyncio.create_task(asked()) for _ in range(8)]
        while server._expected < 8:
            await asyncio.sleep(0.01)
        await server.close()
        for status, text in await asyncio.gather(*asking):
            assert status == (200 if stream else 503)
            assert json.loads(text)["error"]["type"] == "server_error"


async def test_an_answer_that_an_agents_own_limit_cut_off_is_cut_by_no_context():
    """The limits are the team's own: the client's is larger, and says nothing of a context."""
    solver = Solver(ScriptedModel(["two and two make four"]), sampling=Sampling(max_tokens=3))
    async with serving({"solver": solver}, env_id="arithmetic-solve") as server:
        model = HTTPModel(server.url, "arithmetic-solve")
        [completion] = await model.complete([QUESTION], 1, Sampling(max_tokens=100))
    assert (completion.text, completion.finish_reason) == ("two and two", "length")


async def test_keys_are_asked_for():
    async with serving(keys=["first", "second"]) as server:
        async with client(server, "second") as who:
            assert (await ask(who)).choices
        async with client(server, "third") as who:
            with pytest.raises(openai.AuthenticationError):
                await ask(who)
        assert server.counters.snapshot().episodes == 1


async def test_what_the_command_line_has_answered_outlives_its_end(tmp_path):
    arguments = ["serve", "solve", "--agents", "scripted:4", "--port", 0, "--out", tmp_path]
    with subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().split(" at ")[1].split(";")[0]
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as who:
            answer = await ask(who, model="solve")
        process.kill()
    [tree] = read_run(tmp_path).trees
    assert answer.model_extra["mars_env"][0]["tree"] == tree.id
