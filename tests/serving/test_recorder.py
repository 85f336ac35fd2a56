"""The recorder before a stand-in for vLLM's server; tests/engines/test_vllm_recorder.py has a real one."""

import asyncio
import re
import sys

import aiohttp
import pytest
from exact_engine import Engine

from mars_env.rollout import read_run
from mars_env.serving.recorder import Recorder
from mars_env.types import Problem

openai = pytest.importorskip("openai", reason="the official client is not installed: pip install openai")

httpx = pytest.importorskip("httpx")


def client(recorder, key="none", **settings):
    return openai.AsyncOpenAI(base_url=recorder.url, api_key=key, max_retries=0, **settings)


def user(text):
    return {"role": "user", "content": text}


async def say(who, *messages, model="m", **settings):
    return await who.chat.completions.create(model=model, messages=list(messages), **settings)


async def streamed(who, *messages, **settings):
    """The text and id of a streamed answer."""
    stream = await who.chat.completions.create(model="m", messages=list(messages), stream=True, **settings)
    text, name = "", ""
    async for chunk in stream:
        name = chunk.id
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
        for choice in chunk.choices:
            assert "token_ids" not in (choice.model_extra or {})
            assert choice.logprobs is None
        assert "prompt_token_ids" not in (chunk.model_extra or {})
    return text, name


def by_answer(path):
    return {turn.info["id"]: turn for tree in read_run(path).trees for turn in tree.turns}


@pytest.mark.parametrize("stream", [False, True])
async def test_ids_and_log_probabilities_are_the_engine_s(tmp_path, stream):
    async with Engine() as engine, Recorder(engine.url, tmp_path) as recorder, client(recorder) as who:
        for number in range(3):
            if stream:
                text, name = await streamed(who, user(f"question {number}"))
            else:
                answer = await say(who, user(f"question {number}"))
                text, name = answer.choices[0].message.content, answer.id
                assert answer.choices[0].logprobs is None
                assert "token_ids" not in (answer.choices[0].model_extra or {})
            turn = by_answer(tmp_path)[name]
            [completion] = turn.action.completions
            assert (list(completion.token_ids), list(completion.logprobs)) == engine.told[name, 0]
            assert turn.text == completion.text == text
            assert completion.trainable
            assert completion.versions == ((0, len(completion.token_ids)),)
        assert recorder.counts["turns"] == 3


async def test_the_program_gets_what_it_asked_for(tmp_path):
    async with Engine() as engine, Recorder(engine.url, tmp_path) as recorder, client(recorder) as who:
        answer = await say(who, user("q"), logprobs=True, n=2, temperature=0.5, max_tokens=7, seed=4)
        assert [c.logprob for c in answer.choices[0].logprobs.content] == engine.told[answer.id, 0][1]
        models = await who.models.list()
        assert [model.id for model in models.data] == ["m"]
    [(body, _)] = engine.requests
    told = {name: body[name] for name in ("temperature", "max_tokens", "seed", "n", "top_p", "top_k")}
    assert told == {"temperature": 0.5, "max_tokens": 7, "seed": 4, "n": 2, "top_p": 1.0, "top_k": 0}
    turns = by_answer(tmp_path)
    assert {answer.id, f"{answer.id}:1"} == turns.keys()
    assert {turn.action.completions[0].temperature for turn in turns.values()} == {0.5}
    # Raw logits at temperature 0.5 are not what was sampled from: nothing is trained on them.
    assert not any(turn.trainable for turn in turns.values())
    assert recorder.counts["not trainable"] == 2


async def test_agents_and_trees_are_named_three_ways(tmp_path):
    problem = Problem("aime/3", "2 + 2?", "4")
    async with Engine() as engine, Recorder(engine.url, tmp_path, problems=[problem]) as recorder:
        async with client(recorder, "mars:solver_0:aime/3#0") as who:
            await say(who, user("a"))
        async with client(recorder, "sk-real") as who:
            await say(who, user("b"), extra_headers={"X-Mars-Agent": "verifier_0", "X-Mars-Tree": "aime/3#0"})
            await say(who, user("c"), model="qwen3@corrector_0")
            await say(who, user("d"))
            with pytest.raises(openai.BadRequestError):
                await say(who, user("d"), extra_headers={"X-Mars-Agent": "a b"})
    turns = sorted(by_answer(tmp_path).values(), key=lambda turn: turn.info["number"])
    assert [turn.agent for turn in turns] == ["solver_0", "verifier_0", "corrector_0", "agent_0"]
    assert [(turn.tree_id, turn.id) for turn in turns[:2]] == [("aime/3#0", "0"), ("aime/3#0", "1")]
    assert [turn.policy for turn in turns] == ["m", "m", "qwen3", "m"]
    assert problem in [tree.problem for tree in read_run(tmp_path).trees]
    headers = [headers for _, headers in engine.requests]
    assert [h.get("Authorization") for h in headers] == [None, *["Bearer sk-real"] * 3]
    assert not any(name.startswith("X-Mars") for h in headers for name in h)
    assert engine.requests[2][0]["model"] == "qwen3"


async def test_a_call_that_extends_another_is_its_child(tmp_path):
    async with Engine() as engine:
        async with Recorder(engine.url, tmp_path) as recorder, client(recorder) as who:
            engine.reply = {"content": "<think>hm</think>It is 4."}
            first = (await say(who, user("2 + 2?"))).choices[0].message
            await say(who, user("2 + 2?"), first, user("Sure?"))
            shown = {"role": "assistant", "content": "It is 4."}  # sent back without its thinking
            await say(who, user("2 + 2?"), shown, user("Really?"))
            await say(who, user("3 + 3?"))
        async with Recorder(engine.url, tmp_path) as recorder, client(recorder) as who:  # and after a restart
            await say(who, user("2 + 2?"), shown, user("Really?"), shown, user("Once more."))
            await say(who, user("2 + 2?"))
    trees = read_run(tmp_path).trees
    ids = [[turn.id for turn in tree.turns] for tree in trees]
    assert ids == [["0", "0.0", "0.1", "0.1.0"], ["0"], ["0"]]
    assert [message["content"] for message in trees[0].turns[2].info["messages"]] == ["Really?"]
    assert trees[0].problem.id == trees[1].problem.id  # two samples of one problem
    assert trees[0].turns[0].group_id == trees[1].turns[0].group_id
    assert trees[0].problem.statement == "2 + 2?"


@pytest.mark.parametrize("stream", [False, True])
async def test_tool_calls_pass(tmp_path, stream):
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
    async with Engine() as engine, Recorder(engine.url, tmp_path) as recorder, client(recorder) as who:
        engine.reply = {"content": None, "tool_calls": [call]}
        if stream:
            await streamed(who, user("2 + 2?"), tools=tools)
        else:
            answer = await say(who, user("2 + 2?"), tools=tools)
            assert answer.choices[0].message.tool_calls[0].function.name == "add"
        engine.reply = None
        said = {"role": "assistant", "content": None, "tool_calls": [call]}
        await say(
            who, user("2 + 2?"), said, {"role": "tool", "tool_call_id": "c1", "content": "4"}, tools=tools
        )
    assert engine.requests[0][0]["tools"] == tools
    first, second = read_run(tmp_path).trees[0].turns
    assert first.info["tool_calls"][0]["function"] == call["function"]
    assert first.trainable
    assert second.parent_id == first.id


async def test_errors_of_the_engine_are_passed_on_counted_and_not_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINE_KEY", "sk-secret-12345678")
    async with Engine() as engine:
        recorder = Recorder(engine.url, tmp_path, api_key_env="ENGINE_KEY")
        async with recorder, client(recorder, "sk-own") as who:
            engine.fail = (429, {"error": {"message": "slow down, sk-secret-12345678", "code": 429}})
            with pytest.raises(openai.RateLimitError) as caught:
                await say(who, user("q"))
            assert caught.value.response.headers["Retry-After"] == "3"
            with pytest.raises(openai.RateLimitError):
                await streamed(who, user("q"))
            engine.fail = None
            engine.reply = {"content": 5}
            await say(who, user("q"))
            assert recorder.counts == {"status 429": 2, "unreadable": 1}
        assert engine.requests[0][1]["Authorization"] == "Bearer sk-secret-12345678"
    assert read_run(tmp_path).trees == ()
    async with Recorder("http://127.0.0.1:9/v1", tmp_path / "b") as recorder, client(recorder) as who:
        with pytest.raises(openai.InternalServerError):
            await say(who, user("q"))
        assert recorder.counts == {"unreachable": 1}


async def test_what_is_no_request_is_refused_before_the_engine_sees_it(tmp_path):
    async with Engine() as engine, aiohttp.ClientSession() as session:
        recorder = Recorder(engine.url, tmp_path)
        recorder.max_body = 10_000
        await recorder.start()
        chat = f"{recorder.url}/chat/completions"
        head = {"Content-Type": "application/json"}

        async def status(data, headers=head, url=chat):
            async with session.post(url, data=data, headers=headers) as answer:
                assert (await answer.json())["error"]["message"].startswith("recorder: ")
                return answer.status

        content = '{"model": "m", "messages": [{"role": "user", "content": '
        fields = ("temperature", "top_p", "top_k", "max_tokens")  # vLLM reads them, a run cannot be read
        for body in (
            *("{}", "nonsense", '{"model": "m", "messages": [5]}'),
            *(content + "NaN}]}", content + "[" * 90 + "]" * 90 + "}]}"),
            *(f'{content}"q"}}], "{f}": {v}}}' for f in fields for v in ('"0.7"', "[1]", "1e400")),
        ):
            assert await status(body.encode()) == 400
        assert await status(b"{}", {"Content-Type": "text/plain"}) == 415  # a form of a web page
        assert await status(b'{"a": "' + b"a" * 20_000 + b'"}') == 413
        assert await status(b"{}", url=recorder.url + "/completions") == 404
        async with session.get(recorder.url.replace("/v1", "/counts")) as answer:
            assert await answer.json() == {"refused": 20}
        await recorder.close()
    assert engine.requests == []


async def test_a_program_that_goes_away_leaves_no_turn(tmp_path):
    async with Engine() as engine, Recorder(engine.url, tmp_path) as recorder, client(recorder) as who:
        engine.gate = asyncio.Event()
        call = asyncio.create_task(say(who, user("q")))
        while not engine.requests:
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        [connection] = recorder._server._runner.server.connections
        while connection.transport is not None:
            await asyncio.sleep(0)
        engine.gate.set()
    assert recorder.counts == {"abandoned": 1}
    assert by_answer(tmp_path) == {}


OTHER = "the program asks for another distribution"


@pytest.mark.parametrize(
    ("lacks", "settings", "why"),
    [
        (("token_ids",), {}, "the engine gives no token ids"),
        (("logprobs",), {}, "the engine gives no log-probabilities"),
        ((), {"temperature": 0.5}, "the log-probabilities are of raw logits"),
        ((), {"top_p": 0.9}, OTHER),
        ((), {"presence_penalty": 1.0}, OTHER),
        ((), {"response_format": {"type": "parse_json_object"}}, OTHER),
    ],
)
async def test_why_a_turn_cannot_be_trained_on_is_told_at_the_first(tmp_path, lacks, settings, why, caplog):
    async with Engine() as engine, Recorder(engine.url, tmp_path) as recorder, client(recorder) as who:
        engine.lacks = lacks
        for question in ("q", "r"):
            await say(who, user(question), **settings)
        assert recorder.counts == {"turns": 2, "not trainable": 2}
    assert caplog.text.count(f"cannot be trained on: {why}") == 1
    assert not any(turn.trainable for turn in by_answer(tmp_path).values())


async def test_a_killed_recorder_loses_nothing_that_a_program_has_seen(tmp_path):
    """SIGKILL while four programs talk through it; then it goes on in the same run."""
    seen = {}
    async with Engine() as engine:
        engine.delay = 0.01
        command = [sys.executable, "-m", "mars_env", "record", "--upstream", engine.url, "--port", "0"]
        for life in range(2):
            process = await asyncio.create_subprocess_exec(
                *command, "--out", tmp_path, stdout=asyncio.subprocess.PIPE
            )
            url = re.search(rb"http://\S+", await process.stdout.readline())[0].decode()

            async def talk(number, url=url, life=life):
                async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as who:
                    for step in range(1000):
                        said = user(f"{life} {number} {step}")
                        if number % 2:
                            text, name = await streamed(who, said)
                        else:
                            answer = await say(who, said)
                            text, name = answer.choices[0].message.content, answer.id
                        seen[name] = text

            programs = [asyncio.create_task(talk(number)) for number in range(4)]
            enough = len(seen) + 12
            while len(seen) < enough:
                await asyncio.sleep(0.01)
                assert process.returncode is None
            process.kill()
            await process.wait()
            ended = await asyncio.gather(*programs, return_exceptions=True)
            assert all(isinstance(one, openai.OpenAIError | httpx.HTTPError) for one in ended)
            kept = by_answer(tmp_path)
            assert {name: kept[name].text for name in seen} == seen
            for name in seen:
                [completion] = kept[name].action.completions
                assert (list(completion.token_ids), list(completion.logprobs)) == engine.told[name, 0]


async def test_keys_are_asked_for_and_not_passed_on(tmp_path):
    async with Engine() as engine:
        guarded = Recorder(engine.url, tmp_path, keys=["right", "other"])
        async with guarded as recorder, client(recorder, "right") as who, client(recorder, "wrong") as thief:
            await say(who, user("q"), extra_headers={"X-Mars-Agent": "verifier_0"})
            with pytest.raises(openai.AuthenticationError):
                await say(thief, user("q"))
            with pytest.raises(openai.AuthenticationError):
                await thief.models.list()
        assert "Authorization" not in engine.requests[0][1] and len(engine.requests) == 1
    [turn] = by_answer(tmp_path).values()
    assert turn.agent == "verifier_0"
