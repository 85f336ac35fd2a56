"""A small OpenAI-compatible server for tests: each answer is drawn with its request's seed."""

import asyncio
import random
import threading

from aiohttp import web
from http_app import served


class Server:
    """Serves chat completions in a separate thread and counts them.

    Args:
        answers: By a problem's statement, the answer that is given half of the time.
    """

    def __init__(self, answers=None):
        self.answers = answers or {}
        self.calls = self.completion_tokens = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(300)
        return self

    def __exit__(self, *exc):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    async def _serve(self):
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with served({"POST /v1/chat/completions": self._answer}) as url:
            self.url = f"{url}/v1"
            self._ready.set()
            await self._over.wait()

    async def _answer(self, request):
        body = await request.json()
        rng = random.Random(f"{body.get('seed')} {body['messages'][-1]['content']}")
        judging = "one of these two lines" in str(body["messages"])
        known = [a for problem, a in self.answers.items() if problem in str(body["messages"][-1]["content"])]
        texts = [self._text(rng, judging, known) for _ in range(body.get("n") or 1)]
        self.calls += 1
        prompt = sum(len(m["content"].split()) for m in body["messages"])
        completion = sum(len(text.split()) for text in texts)
        self.completion_tokens += completion
        choices = [
            {"index": i, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            for i, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": prompt, "completion_tokens": completion}
        usage["total_tokens"] = prompt + completion
        head = {"id": f"chat-{self.calls}", "object": "chat.completion", "created": 0, "model": body["model"]}
        return web.json_response({**head, "choices": choices, "usage": usage})

    @staticmethod
    def _text(rng, judging, known):
        if judging and rng.random() < 0.9:
            return f"Step {rng.randrange(9)} needs a look.\nCorrectness: {rng.choice(['Correct', 'Wrong'])}"
        thinking = f"<think>{'hm ' * rng.randrange(20)}</think>"
        answer = known[0] if known and rng.random() < 0.5 else rng.randrange(1000)
        return f"{thinking}So the answer is \\boxed{{{answer}}}."
