"""`HTTPModel.score`: exact ids go out, and what comes back is checked."""

from contextlib import AsyncExitStack

import pytest
from aiohttp import web
from http_app import served
from tiny_checkpoint import byte_tokenizer

from mars_env.errors import ConfigError, ModelError
from mars_env.models.http import HTTPModel
from mars_env.types import ScoringModel

IDS, TEXT = [3, 1, 4], [1, 5, 9]


def value(token, place):
    """The log-probability that the server gives a token at a place of the prompt."""
    return -(token + place / 10)


class Server:
    """Scores prompts, or does not; counts what it was asked."""

    def __init__(self, scores=True, change=lambda choice: choice):
        self.scores, self.change = scores, change
        self.bodies = []

    async def handle(self, request):
        body = await request.json()
        self.bodies.append(body)
        ids = body["prompt"]
        if isinstance(ids, str):  # asked to see whether it answers at all
            return web.json_response({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]})
        scored = [None, *(value(token, place) for place, token in enumerate(ids) if place)]
        choice = {"index": 0, "text": "", "finish_reason": "length"}
        if self.scores:
            entries = [
                None if v is None else {str(t): {"logprob": v, "rank": 1, "decoded_token": "?"}}
                for t, v in zip(ids, scored, strict=True)
            ]
            choice["prompt_logprobs"] = entries
        return web.json_response({"choices": [self.change(choice)]})


@pytest.fixture
async def serve():
    async with AsyncExitStack() as stack:

        async def start(*arguments, **options):
            server = Server(*arguments, **options)
            address = await stack.enter_async_context(served({"POST /v1/completions": server.handle}))
            server.url = f"{address}/v1"
            return server

        yield start


async def test_token_ids_are_scored_as_they_are(serve):
    server = await serve()
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
async def test_texts_need_the_tokenizer_and_are_encoded_as_a_model_here_would(serve, tmp_path, by_name):
    tokenizer, server = byte_tokenizer(), await serve()
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


async def test_a_server_that_scores_nothing_is_a_config_error(serve):
    server = await serve(scores=False)
    with pytest.raises(ConfigError):
        await HTTPModel(server.url, "m").score(IDS, TEXT, end=False)
    assert len(server.bodies) == 1


def changed(**fields):
    return lambda choice: {**choice, **fields}


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
async def test_what_is_no_score_of_these_tokens_is_refused(serve, answer):
    server = await serve(change=changed(prompt_logprobs=answer))
    model = HTTPModel(server.url, "m", attempts=2, backoff=0.01)
    with pytest.raises(ModelError):
        await model.score(IDS, TEXT, end=False)
    assert len([body for body in server.bodies if isinstance(body["prompt"], list)]) == 2
