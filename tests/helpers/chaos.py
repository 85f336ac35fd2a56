"""An OpenAI-compatible server in a process of its own, which fails on command, and which tests kill.

Answers depend on the request's seed and role alone, so that a run against it gives the same trees however
often it failed.
"""

import asyncio
import multiprocessing
import random
import socket

from aiohttp import web
from http_app import served


async def fail(fault, request):
    if fault.isdigit():
        headers = {"Retry-After": "0.01"} if fault == "429" else {}
        return web.json_response({"error": {"message": "by command"}}, status=int(fault), headers=headers)
    if fault == "malformed":
        return web.Response(text='{"choices": [{"message": {"content": "4')
    if fault == "truncated":
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"choices": [')
    if fault == "hang":
        await asyncio.sleep(3600)
    request.transport.close()
    return web.Response()


def text(body):
    rng = random.Random(body["seed"])
    if "Correctness: Correct" in body["messages"][-1]["content"]:
        return f"Step {rng.randrange(9)}.\nCorrectness: {rng.choice(['Correct', 'Wrong'])}"
    return f"It is \\boxed{{{rng.randrange(20)}}}."


async def serve(port, faults, rate, seconds, ready):
    chance = random.Random(1)

    async def answer(request):
        body = await request.json()
        if faults and ("POISON" in str(body["messages"]) or chance.random() < rate):
            return await fail(chance.choice(faults), request)
        await asyncio.sleep(seconds)
        message = {"role": "assistant", "content": text(body)}
        return web.json_response({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    async with served({"POST /v1/chat/completions": answer}, port):
        ready.set()
        await asyncio.Event().wait()


def run(*arguments):
    asyncio.run(serve(*arguments))


class ChaosServer:
    """Starts, kills and restarts a server on one port."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self.process = None

    def start(self, *faults, rate=0.0, seconds=0.002):
        """A share of the requests suffers one of the faults, and the word POISON in a prompt always does.

        Faults are statuses, ``malformed``, ``truncated``, ``closed`` and ``hang``; others take `seconds`.
        """
        context = multiprocessing.get_context("spawn")
        ready = context.Event()
        arguments = (self.port, faults, rate, seconds, ready)
        self.process = context.Process(target=run, args=arguments, daemon=True)
        self.process.start()
        assert ready.wait(60)
        return self

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None
