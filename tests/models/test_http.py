import asyncio
import gzip
import json
import random

import pytest
from aiohttp import web
from http_app import served
from tiny_checkpoint import byte_tokenizer

from mars_env.errors import ConfigError, ContextError, ModelError
from mars_env.models.http import HTTPModel
from mars_env.seeds import derive_seed
from mars_env.testing.model_suite import check_model
from mars_env.types import Sampling, ScoringModel


def value(token, place):
    """The log-probability that the server gives a token at a place of the prompt."""
    return -(token + place / 10)


def scores_of(ids):
    return [None, *({str(token): {"logprob": value(token, i)}} for i, token in enumerate(ids) if i)]


class Server:
    """A small server that speaks vLLM's dialect, and misbehaves as it is told."""

    def __init__(self):
        self.faults = []  # one is taken by each request: a status, "slow" or a function
        self.refused = {}  # faults of requests by their prompts
        self.bodies, self.headers = [], []
        self.busy = self.most_busy = 0
        self.held = 0  # requests wait until so many have been there at once
        self.most_choices = 10**9
        self.scores = scores_of  # of the tokens of a prompt

    def serving(self):
        routes = {f"POST /v1{path}": self.handle for path in ("/chat/completions", "/completions")}
        return served({**routes, "GET /v1/models": self.models})

    async def models(self, request):
        return web.json_response({"data": [{"id": "m", "max_model_len": 40}]})

    async def handle(self, request):
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        try:
            self.headers.append(dict(request.headers))
            body = await request.json()
            self.bodies.append(body)
            while self.most_busy < self.held:
                await asyncio.sleep(0)
            fault = self.refused.get(str(body.get("prompt")))
            fault = fault or (self.faults.pop(0) if self.faults else None)
            if fault is not None:
                return await self.misbehave(fault, request, body)
            return web.json_response(self.answer(body, chat="messages" in body))
        finally:
            self.busy -= 1

    async def misbehave(self, fault, request, body):
        if callable(fault):
            return fault(body)
        if isinstance(fault, int):
            return web.json_response({"error": {"message": "by command"}}, status=fault)
        return await asyncio.sleep(60)  # "slow"

    def answer(self, body, chat):
        if "prompt_logprobs" in body:
            return {"choices": [{"index": 0, "text": "", "prompt_logprobs": self.scores(body["prompt"])}]}
        prompt = json.dumps(body.get("messages") or body["prompt"])
        prompt_ids = body["prompt"] if isinstance(body.get("prompt"), list) else [ord(c) % 97 for c in prompt]
        choices, total = [], 0
        for index in range(min(body.get("n", 1), self.most_choices)):
            rng = random.Random(f"{prompt} {body.get('seed')} {index}")
            ids = [rng.randrange(10) for _ in range(rng.randrange(1, 12))]
            reason = "stop"
            if len(ids) > body["max_tokens"]:
                ids, reason = ids[: body["max_tokens"]], "length"
            text = "".join(map(str, ids))
            for stop in body.get("stop", ()):
                text = text.partition(stop)[0]
            total += len(ids)
            choice = {"index": index, "finish_reason": reason}
            choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
            if body.get("return_token_ids"):
                choice["token_ids"] = ids
                if not chat:
                    choice["prompt_token_ids"] = prompt_ids
            if body.get("logprobs"):
                values = [-0.5 - token / 10 for token in ids]
                content = [{"token": str(t), "logprob": v} for t, v in zip(ids, values, strict=True)]
                choice["logprobs"] = {"content": content} if chat else {"token_logprobs": values}
            choices.append(choice)
        answer = {"choices": choices, "usage": {"prompt_tokens": len(prompt_ids), "completion_tokens": total}}
        if chat and body.get("return_token_ids"):
            answer["prompt_token_ids"] = prompt_ids
        return answer


@pytest.fixture
async def server():
    server = Server()
    async with server.serving() as address:
        server.url = f"{address}/v1"
        yield server


CHAT = [{"role": "system", "content": "Reckon."}, {"role": "user", "content": "1 + 1 = ü?"}]


@pytest.mark.parametrize("exact", [False, True])
async def test_keeps_the_contract_of_models(server, exact):
    model = HTTPModel(server.url, "m", samples_per_call=1, exact=exact)
    await check_model(model, exact=exact)
    await check_model(model, CHAT, exact=exact)


async def test_requests_say_what_was_asked(server):
    model = HTTPModel(server.url, "m", extra_body={"chat_template_kwargs": {"x": 1}})
    sampling = Sampling(temperature=0.6, top_p=0.95, top_k=20, max_tokens=9, stop=("END",), seed=5)
    await model.complete([{**CHAT[0], "name": "x"}, CHAT[1]], 3, sampling)
    await model.complete([1, 2, 3], 1, Sampling())
    first, second = server.bodies
    assert first == {
        "model": "m",
        "chat_template_kwargs": {"x": 1},
        "messages": CHAT,
        "n": 3,
        "temperature": 0.6,
        "top_p": 0.95,
        "max_tokens": 9,
        "stop": ["END"],
        "top_k": 20,
        "seed": derive_seed(5, 0) >> 32,
    }
    assert second["prompt"] == [1, 2, 3]
    assert "seed" not in second and "top_k" not in second and "logprobs" not in second


async def test_samples_are_split_over_calls_each_with_its_seed(server):
    model = HTTPModel(server.url, "m", samples_per_call=2)
    assert len(await model.complete("p", 5, Sampling(seed=1))) == 5
    sent = sorted((body["n"], body["seed"]) for body in server.bodies)
    assert sent == sorted((n, derive_seed(1, first) >> 32) for n, first in ((2, 0), (2, 2), (1, 4)))
    server.bodies, server.most_choices = [], 2  # a server that knows no n is asked again
    assert len(await HTTPModel(server.url, "m").complete("p", 5, Sampling(seed=1))) == 5
    assert [body["n"] for body in server.bodies] == [5, 3, 1]
    assert len({body["seed"] for body in server.bodies}) == 3
    server.bodies, server.most_choices = [], 9  # vLLM: "n must be 1 when using greedy sampling"
    assert len(await HTTPModel(server.url, "m").complete("p", 3, Sampling(temperature=0))) == 3
    assert [body["n"] for body in server.bodies] == [1, 1, 1]


def moved(body):
    to = {"Location": "https://elsewhere/v1/completions?key=secret"}
    return web.json_response({}, status=308, headers=to)


@pytest.mark.parametrize(
    ("fault", "options", "requests"),
    [(500, {"attempts": 3}, 3), ("slow", {"attempts": 1, "timeout": 0.2}, 1)]
    + [(fault, {}, 1) for fault in (400, 422, moved)],
)
async def test_what_ends_in_an_error(server, fault, options, requests):
    server.refused["p"] = fault
    with pytest.raises(ModelError):
        await HTTPModel(server.url, "m", backoff=0.01, **options).complete("p", 1, Sampling())
    assert sum(body["prompt"] == "p" for body in server.bodies) == requests


async def test_no_more_calls_than_the_limit_are_under_way(server):
    server.held = 5
    model = HTTPModel(server.url, "m", concurrency=5)
    await asyncio.gather(*(model.complete("p", 1, Sampling()) for _ in range(40)))
    assert server.most_busy == 5


async def test_the_key_is_sent(server, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-secret-123")
    model = HTTPModel(server.url, "m", api_key_env="MY_KEY", headers={"X-Team": "t"})
    await model.complete("p", 1, Sampling())
    assert server.headers[0]["Authorization"] == "Bearer sk-secret-123"
    assert server.headers[0]["X-Team"] == "t"
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(ConfigError):
        HTTPModel(server.url, "m", api_key_env="MY_KEY")


async def test_exact_requests_leave_nothing_to_a_checkpoint_s_own_sampling(server):
    neutral = {"min_p": 0.0, "repetition_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0}
    model = HTTPModel(server.url, "m", exact=True)
    [completion] = await model.complete(CHAT, 1, Sampling())
    assert completion.trainable and server.bodies[0].items() >= neutral.items()
    model = HTTPModel(server.url, "m", exact=True, extra_body={"repetition_penalty": 1.1})
    [completion] = await model.complete(CHAT, 1, Sampling())
    assert not completion.trainable and completion.token_ids
    assert server.bodies[1]["repetition_penalty"] == 1.1
    model = HTTPModel(server.url, "m")
    await model.complete(CHAT, 1, Sampling())
    assert not server.bodies[2].keys() & neutral.keys()


@pytest.mark.parametrize(
    "answer",
    [
        {"text": "a" * 5000},
        {"body": gzip.compress(b" " * (1 << 20)), "headers": {"Content-Encoding": "gzip"}},
    ],
    ids=["long", "packed"],
)
async def test_an_answer_that_is_too_long_or_would_unpack_is_an_error(server, answer):
    server.refused["p"] = lambda body: web.Response(**answer)
    model = HTTPModel(server.url, "m", attempts=1, max_answer=4000)
    with pytest.raises(ModelError):
        await model.complete("p", 1, Sampling())


async def test_a_server_says_what_its_model_can_hold(server):
    model = HTTPModel(server.url, "m")
    assert model.context is None
    assert await model.learn_context() == 40 == model.context
    assert await HTTPModel(server.url, "another").learn_context() is None
    assert await HTTPModel("http://127.0.0.1:9/v1", "m").learn_context() is None


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"message": "This model's maximum context length is 40 tokens. You requested 99."}, "context"),
        ({"message": "The response was filtered.", "code": "content_filter"}, "content_filter"),
    ],
)
async def test_requests_refused_for_their_content_have_unknown_answers(server, caplog, error, reason):
    server.faults = [lambda body: web.json_response({"error": error}, status=400) for _ in range(2)]
    model = HTTPModel(server.url, "m")
    completions = await model.complete("How?", 2, Sampling(max_tokens=90))
    assert [(c.text, c.finish_reason) for c in completions] == [("", reason)] * 2
    assert error["message"] in caplog.text
    if reason == "context":
        with pytest.raises(ContextError):
            await model.complete("How?", 2, Sampling(max_tokens=90, overflow="refuse"))
        assert len(server.bodies) == 2  # trying again would not help


IDS, TEXT = [3, 1, 4], [1, 5, 9]


async def test_token_ids_are_scored_as_they_are(server):
    model = HTTPModel(server.url, "m", version=7)
    assert isinstance(model, ScoringModel)
    scored = await model.score(IDS, TEXT, end=False)
    again = await model.score(IDS, [2], [6], end=False)
    assert (scored.prompt_ids, scored.token_ids) == (tuple(IDS), tuple(TEXT))
    assert scored.logprobs == (value(1, 3), value(5, 4), value(9, 5))  # by hand: -1.3, -5.4, -9.5
    assert scored.logprobs == pytest.approx((-1.3, -5.4, -9.5))
    assert scored.versions == ((7, 3),) and scored.temperature == 1.0 and scored.trainable
    assert again.logprobs == pytest.approx((-2.3, -6.4))
    assert all(body["prompt"][:3] == IDS and body["temperature"] == 1.0 for body in server.bodies)
    assert len(server.bodies) == 2


@pytest.mark.parametrize("by_name", [False, True])
async def test_texts_need_the_tokenizer_and_are_encoded_as_a_model_here_would(server, tmp_path, by_name):
    tokenizer = byte_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    model = HTTPModel(server.url, "m", tokenizer=str(tmp_path) if by_name else tokenizer)
    given = model.written("1+1=", "ab", "c")
    scored = await model.score("1+1=", "ab", "c")
    prompt = tokenizer.encode("1+1=")
    text = [*tokenizer.encode("ab"), *tokenizer.encode("c"), tokenizer.eos_token_id]
    assert server.bodies[0]["prompt"] == [*prompt, *text]
    assert (scored.prompt_ids, scored.token_ids, scored.text) == (tuple(prompt), tuple(text), "abc")
    assert given.token_ids == scored.token_ids and given.logprobs == ()
    assert len(scored.logprobs) == len(text)


async def test_a_server_that_scores_nothing_is_a_config_error(server):
    server.scores = lambda ids: None
    with pytest.raises(ConfigError):
        await HTTPModel(server.url, "m").score(IDS, TEXT, end=False)
    assert len(server.bodies) == 1


ENTRY = {"logprob": -1.0}
ANSWERS = {
    "too few": [None, {"1": ENTRY}],
    "too many": [None, *({str(t): ENTRY} for t in [*IDS[1:], *TEXT, 2])],
    "other tokens": [None, *({str(t + 1): ENTRY} for t in [*IDS[1:], *TEXT])],
    "above 1": [None, *({str(t): {"logprob": 0.5}} for t in [*IDS[1:], *TEXT])],
    "not a number": [None, *({str(t): {"logprob": "-1"}} for t in [*IDS[1:], *TEXT])],
    "none at all": [None] * 6,
    "impossible": [None, *({str(t): {"logprob": -9999.0}} for t in [*IDS[1:], *TEXT])],
    "no list": 7,
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_what_is_no_score_of_these_tokens_is_refused(server, answer):
    server.scores = lambda ids: answer
    model = HTTPModel(server.url, "m", attempts=2, backoff=0.01)
    with pytest.raises(ModelError):
        await model.score(IDS, TEXT, end=False)
    assert len([body for body in server.bodies if isinstance(body["prompt"], list)]) == 2
