"""What a dead server of four costs: turns a second with four servers, and where one of them is dead.

    python benchmarks/dead_server.py --turns 2000

The servers are this process's own, and each answers eight requests at a time in 0.1 seconds. A dead one is a
closed port, or answers every request with status 502 at once. Rows are interleaved; the best of three counts.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter

from aiohttp import web

from mars_env.models import HTTPModel
from mars_env.net import Server, start_server
from mars_env.types import Sampling

SLOTS, SECONDS = 8, 0.1
ANSWER = {"choices": [{"text": "4", "finish_reason": "stop"}]}


async def serve(name: str, requests: Counter[str], dead: bool) -> Server:
    room = asyncio.Semaphore(SLOTS)

    async def answer(request: web.Request) -> web.Response:
        requests[name] += 1
        if dead:
            return web.Response(status=502)
        async with room:
            await asyncio.sleep(SECONDS)
        return web.json_response(ANSWER)

    app = web.Application()
    app.router.add_post("/v1/completions", answer)
    return await start_server(app)


async def turns_per_second(turns: int, dead: str) -> tuple[float, int]:
    """The rate over all turns, and how many requests the last server was sent."""
    requests = Counter[str]()
    servers = [await serve(str(i), requests, dead == "502" and i == 3) for i in range(4)]
    if dead == "closed":
        await servers[3].close()
    model = HTTPModel([f"{server.url}/v1" for server in servers], "m", concurrency=5 * SLOTS)
    began = time.perf_counter()
    await asyncio.gather(*(model.complete(f"{i}", 1, Sampling(max_tokens=8)) for i in range(turns)))
    rate = turns / (time.perf_counter() - began)
    for server in servers[: 3 if dead == "closed" else 4]:
        await server.close()
    return rate, requests["3"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=2000)
    turns = parser.parse_args().turns
    rows: dict[str, list[tuple[float, int]]] = {"four servers": [], "closed": [], "502": []}
    for _ in range(3):
        for dead, row in rows.items():
            row.append(asyncio.run(turns_per_second(turns, dead)))
    whole = max(rows["four servers"])[0]
    print("| one of four | turns/s | share | requests to it |\n|---|---:|---:|---:|")
    for dead, row in rows.items():
        rate, sent = max(row)
        print(f"| {dead} | {rate:.0f} | {rate / whole:.0%} | {sent:,} |")


if __name__ == "__main__":
    main()
