"""A stand-in for vLLM's server: chat completions with token ids and log-probabilities."""

import asyncio
import json
import random

from aiohttp import web
from http_app import served


def tokens_of(text):
    return [ord(character) for character in text]


class Engine:
    """Answers from the seed and the last message; one token is one character.

    Attributes:
        requests: Bodies and headers of what was asked, in order.
        told: Ids and log-probabilities of each choice, by the answer's id and the choice's index.
        fail: A status that is answered instead, with a body.
        gate: An event that answers wait for.
        delay: Seconds before an answer.
        lacks: Names of fields that it never gives: ``token_ids``, ``logprobs``.
    """

    def __init__(self):
        self.requests, self.told = [], {}
        self.fail, self.gate, self.delay, self.reply = None, None, 0.0, None
        self.lacks = ()

    async def __aenter__(self):
        routes = {"POST /v1/chat/completions": self._answer, "GET /v1/models": self._models}
        self._running = served(routes)
        self.url = f"{await self._running.__aenter__()}/v1"
        return self

    async def __aexit__(self, *exc):
        await self._running.__aexit__(None, None, None)

    async def _models(self, request):
        return web.json_response({"object": "list", "data": [{"id": "m", "object": "model"}]})

    async def _answer(self, request):
        body = await request.json()
        if self.lacks:
            wanted = {"logprobs": "logprobs", "token_ids": "return_token_ids"}
            body = {name: body[name] for name in body if name not in [wanted[lack] for lack in self.lacks]}
        self.requests.append((body, dict(request.headers)))
        name = f"chatcmpl-{len(self.requests)}"
        await asyncio.sleep(self.delay)
        if self.gate is not None:
            await self.gate.wait()
        if self.fail is not None:
            status, payload = self.fail
            return web.json_response(payload, status=status, headers={"Retry-After": "3"})
        prompt = tokens_of(json.dumps(body["messages"]))[:50]
        choices = [self._choice(body, name, index) for index in range(body.get("n") or 1)]
        answer = {"id": name, "created": 1, "model": body["model"], "object": "chat.completion"}
        sampled = sum(len(ids) for (told, _), (ids, _) in self.told.items() if told == name)
        usage = {"prompt_tokens": len(prompt), "completion_tokens": sampled}
        answer |= {"choices": choices, "usage": {**usage, "total_tokens": sum(usage.values())}}
        if body.get("return_token_ids"):
            answer["prompt_token_ids"] = prompt
        return web.json_response(answer)

    def _choice(self, body, name, index):
        rng = random.Random(f"{body.get('seed')} {body['messages'][-1]} {index}")
        message = {"role": "assistant", "content": f"so it is {rng.randrange(1000)}"}
        if self.reply is not None:
            message = {"role": "assistant", **self.reply}
        ids = tokens_of(str(message.get("content") or "call"))
        logprobs = [-round(rng.random() + 0.01, 6) for _ in ids]
        self.told[name, index] = (ids, logprobs)
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": index, "message": message, "finish_reason": reason}
        if body.get("logprobs"):
            pairs = zip(ids, logprobs, strict=True)
            content = [{"token": chr(i), "logprob": p, "bytes": [], "top_logprobs": []} for i, p in pairs]
            choice["logprobs"] = {"content": content}
        if body.get("return_token_ids"):
            choice["token_ids"] = ids
        return choice
