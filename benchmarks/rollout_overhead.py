"""What the rollout engine itself costs, compared with `verifiers` and with bare loops.

    python3 -m venv vf-venv && vf-venv/bin/pip install verifiers==0.4.0
    python benchmarks/rollout_overhead.py --verifiers-python vf-venv/bin/python     # about six minutes
    python benchmarks/rollout_overhead.py                                           # without verifiers

*Throughput*: a model server answers immediately; MarsRL's training chain is played by this library's engine,
by `verifiers` in its own interpreter, and by a bare aiohttp loop that only makes the same calls. *Latency*:
every turn takes 20 to 200 ms, fixed by its seed; the bare loop sleeps, or waits for HTTP. Each measurement is
a fresh process, and contenders take turns, so that other load affects all of them equally.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp

from mars_env.agents import make_agents
from mars_env.agents.roles import ROLES
from mars_env.envs import Game, solve_verify_correct
from mars_env.grading.math.grader import MathGrader
from mars_env.models import HTTPModel
from mars_env.rollout import Job, Store, play_all
from mars_env.seeds import derive_seed
from mars_env.types import Completion, Problem, Sampling

ANSWER = "7"
PROBLEM = (
    "Find the remainder when the sum of the squares of the first 2027 positive integers is divided by 9."
)
SOLUTION = (
    "The sum is n(n+1)(2n+1)/6 with n = 2027. We reduce each factor modulo 54, divide by 6, and find the "
    r"remainder step by step, checking it on small cases first. The answer is \boxed{7}."
)
REPORT = (
    "Verdict: the solution skips a step.\n\nFindings:\n- Location: 'We reduce each factor modulo 54'; Class: "
    "justification gap; Issue: the division by 6 is not shown.\n\nCorrectness: Wrong"
)
CHAIN = ("solver", "verifier", "corrector", "verifier", "corrector")
LATENCY = (0.020, 0.200)
SEED = 0

# --- the model server ----------------------------------------------------------------------------------


def answer_bytes(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    answer = {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {"prompt_tokens": 300, "completion_tokens": 60, "total_tokens": 360},
    }  # fmt: skip
    body = json.dumps(answer).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class ModelServer(asyncio.Protocol):
    """As much HTTP as these clients use: POST with Content-Length, kept alive."""

    solution, report = answer_bytes(SOLUTION), answer_bytes(REPORT)
    length = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
    seed = re.compile(rb'"seed": *(\d+)')
    slow = False

    def connection_made(self, transport: Any) -> None:
        self.transport, self.buffer = transport, b""
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            size = self.length.search(self.buffer, 0, end)
            whole = end + 4 + (int(size[1]) if size else 0)
            if len(self.buffer) < whole:
                return
            body, self.buffer = self.buffer[end + 4 : whole], self.buffer[whole:]
            # Only a Verifier's prompt names both verdicts; a Corrector reads a report that says Wrong.
            answer = self.report if b"Correctness: Correct" in body else self.solution
            if self.slow and (seed := self.seed.search(body)):
                delay = latency(int(seed[1]))
                asyncio.get_running_loop().call_later(delay, self.answer, answer)
            else:
                self.transport.write(answer)

    def answer(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)


async def serve(slow: bool) -> None:
    ModelServer.slow = slow
    server = await asyncio.get_running_loop().create_server(ModelServer, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def request_seed(sample: int, turn: int) -> int:
    """The seed in the request of a turn of an episode, as `HTTPModel` sends it."""
    return sampling_seed(sample, turn, tail=True)


def sampling_seed(sample: int, turn: int, *, tail: bool = False) -> int:
    seed = derive_seed(SEED, f"p#{sample}", ".".join("0" * (turn + 1)))
    return derive_seed(seed, 0) >> 32 if tail else seed


def latency(seed: int) -> float:
    """The seconds that the model takes for a request with this seed."""
    return random.Random(seed).uniform(*LATENCY)


# --- the protocol as plain data, for contenders without the library -------------------------------------


def protocol() -> dict[str, Any]:
    marks = {name: f"@{name}@" for name in ("problem", "solution", "report")}
    prompts = {}
    for role, agent in ROLES.items():
        if role in CHAIN:
            observation = {**marks} if role != "solver" else {"problem": "@problem@"}
            system, user = agent(Sleeper()).prompt({**observation, "truncated": 0, "round": 0})
            prompts[role] = {"system": system["content"], "user": user["content"]}
    return {"problem": PROBLEM, "answer": ANSWER, "rounds": 2, "roles": prompts}


# --- contenders: each plays until the time is up, at least `concurrency` episodes -----------------------

Figures = dict[str, float]


async def measured(
    episode: Callable[[int], Awaitable[int]], concurrency: int, seconds: float, most: int | None
) -> Figures:
    """Run a coroutine for each episode, with `concurrency` workers, and count its turns."""
    await episode(0)
    numbers = episode_numbers(concurrency, seconds, most)
    turns = episodes = 0

    async def work() -> None:
        nonlocal turns, episodes
        for number in numbers:
            played = await episode(number)
            turns, episodes = turns + played, episodes + 1

    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"turns": turns, "episodes": episodes, "wall": wall, "cpu": cpu}


def episode_numbers(concurrency: int, seconds: float, most: int | None) -> Iterator[int]:
    until, number = time.monotonic() + seconds, 1
    while number <= (most or concurrency) or (most is None and time.monotonic() < until):
        yield number
        number += 1


async def bare_http(url: str, concurrency: int, seconds: float, most: int | None, seeded: bool) -> Figures:
    """The same calls with nothing but aiohttp; each prompt contains the earlier answers, as it must."""
    roles = protocol()["roles"]
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def episode(number: int) -> int:
            said = {"problem": PROBLEM}
            for turn, role in enumerate(CHAIN):
                text = roles[role]["user"]
                for name, value in said.items():
                    text = text.replace(f"@{name}@", value)
                messages = [{"role": "system", "content": roles[role]["system"]}]
                messages.append({"role": "user", "content": text})
                body = {"model": "m", "messages": messages, "n": 1, "temperature": 1.0, "max_tokens": 4096}
                if seeded:
                    body["seed"] = request_seed(number, turn)
                async with session.post(f"{url}/chat/completions", json=body) as response:
                    answer = await response.json()
                text = answer["choices"][0]["message"]["content"]
                said["report" if role == "verifier" else "solution"] = text
            return len(CHAIN)

        return await measured(episode, concurrency, seconds, most)


async def bare_sleep(url: str, concurrency: int, seconds: float, most: int | None) -> Figures:
    async def episode(number: int) -> int:
        for turn in range(len(CHAIN)):
            await asyncio.sleep(latency(sampling_seed(number, turn)))
        return len(CHAIN)

    return await measured(episode, concurrency, seconds, most)


class Sleeper:
    """A model in the process that sleeps for the latency of each request's seed."""

    name = "m"

    async def complete(self, prompt: Any, n: int, sampling: Sampling) -> list[Completion]:
        await asyncio.sleep(latency(sampling.seed or 0))
        return [Completion(REPORT if "Correctness: Correct" in prompt[-1]["content"] else SOLUTION)]


async def engine(model: Any, concurrency: int, seconds: float, most: int | None) -> Figures:
    """This library's engine, with everything that a user's run has: prompts, grading, rewards, the store."""
    game = Game(solve_verify_correct(schedule="training"), MathGrader())
    agents = make_agents(model, game.rules.possible_agents)
    problem = Problem("p", PROBLEM, ANSWER)
    async for _ in play_all(game, agents, [Job(problem)], seed=SEED, concurrency=1):
        pass  # warms up
    with tempfile.TemporaryDirectory() as folder, Store(folder, {}, [problem]) as store:
        turns = episodes = 0
        jobs = (Job(problem, number) for number in episode_numbers(concurrency, seconds, most))
        wall, cpu = time.perf_counter(), time.process_time()
        async for tree in play_all(game, agents, jobs, seed=SEED, concurrency=concurrency, journal=store):
            if tree.fault:
                raise RuntimeError(tree.fault)
            turns, episodes = turns + len(tree.turns), episodes + 1
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"turns": turns, "episodes": episodes, "wall": wall, "cpu": cpu}


async def engine_http(url: str, concurrency: int, seconds: float, most: int | None) -> Figures:
    model = HTTPModel(url, "m", concurrency=max(64, concurrency))
    return await engine(model, concurrency, seconds, most)


async def engine_sleep(url: str, concurrency: int, seconds: float, most: int | None) -> Figures:
    return await engine(Sleeper(), concurrency, seconds, most)


CONTENDERS: dict[str, Callable[[str, int, float, int | None], Awaitable[Figures]]] = {
    "engine": engine_http,
    "bare": lambda url, c, s, most: bare_http(url, c, s, most, seeded=False),
    "bare-seeded": lambda url, c, s, most: bare_http(url, c, s, most, seeded=True),
    "engine-sleep": engine_sleep,
    "bare-sleep": bare_sleep,
}


# --- the comparison -------------------------------------------------------------------------------------


class Server:
    def __init__(self, slow: bool = False) -> None:
        self.command = [sys.executable, __file__, "--serve", "slow" if slow else "at-once"]

    def __enter__(self) -> str:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        return f"http://127.0.0.1:{int(self.process.stdout.readline())}/v1"

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def measure(command: list[str]) -> Figures:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-3000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def contender(
    name: str, url: str, concurrency: int, seconds: float, most: int | None = None
) -> Callable[[], Figures]:
    command = [sys.executable, __file__, "--contender", name, "--url", url]
    command += ["--concurrency", str(concurrency), "--seconds", str(seconds)]
    return lambda: measure(command + (["--episodes", str(most)] if most else []))


def verifiers_contender(
    python: str, url: str, concurrency: int, seconds: float, told: Path
) -> Callable[[], Figures]:
    command = [python, str(Path(__file__).with_name("verifiers_team.py")), "--url", url]
    command += ["--protocol", str(told), "--concurrency", str(concurrency), "--seconds", str(seconds)]
    return lambda: measure(command)


def in_turn(contenders: dict[str, Callable[[], Figures]], rounds: int) -> dict[str, list[Figures]]:
    """Each round measures every contender once, in a rotating order."""
    results: dict[str, list[Figures]] = {name: [] for name in contenders}
    names = list(contenders)
    for i in range(rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            results[name].append(contenders[name]())
    return results


def rates(figures: list[Figures]) -> list[float]:
    return [one["turns"] / one["wall"] for one in figures]


def spread(values: list[float], digits: int = 0) -> str:
    """Median, minimum and maximum."""
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def ratio(above: list[float], below: list[float]) -> list[float]:
    """The ratio in each round, so that other load on the machine cancels out."""
    return [a / b for a, b in zip(above, below, strict=True)]


def cpu_micros(figures: list[Figures]) -> list[float]:
    return [1e6 * one["cpu"] / one["turns"] for one in figures]


def throughput(arguments: argparse.Namespace, told: Path) -> None:
    print("| concurrent episodes | contender | turns/s | CPU µs a turn | engine's turns/s over it |")
    print("|---|---|---|---|---|")
    for concurrency in arguments.concurrency:
        with Server() as url:
            how = url, concurrency, arguments.seconds
            contenders = {name: contender(name, *how) for name in ("engine", "bare")}
            if python := arguments.verifiers_python:
                contenders["verifiers"] = verifiers_contender(python, *how, told)
            results = in_turn(contenders, arguments.rounds)
        for name, figures in results.items():
            over = ratio(rates(results["engine"]), rates(figures))
            row = [f"{concurrency:,}", name, spread(rates(figures)), spread(cpu_micros(figures))]
            print("|", " | ".join([*row, "" if name == "engine" else spread(over, 2)]), "|", flush=True)


def latencies(arguments: argparse.Namespace) -> None:
    print("\n| concurrent episodes | latency | bare loop, s | engine, s | more wall time | CPU µs a turn |")
    print("|---|---|---|---|---|---|")
    for concurrency, waves in ((64, 8), (1024, 2)):
        most = concurrency * waves
        pairs = {"slept": ("bare-sleep", "engine-sleep"), "over HTTP": ("bare-seeded", "engine")}
        for where, names in pairs.items():
            with Server(slow=True) as url:
                contenders = {name: contender(name, url, concurrency, 0, most) for name in names}
                results = in_turn(contenders, arguments.rounds)
            bare, ours = ([one["wall"] for one in results[name]] for name in names)
            more = [100 * (r - 1) for r in ratio(ours, bare)]
            row = [f"{concurrency:,}", where, spread(bare, 2), spread(ours, 2)]
            row += [f"{spread(more, 2)} %", spread(cpu_micros(results[names[1]]))]
            print("|", " | ".join(row), "|", flush=True)


def machine() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*:\s*(.*)", cpuinfo.read_text()) if cpuinfo.exists() else None
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{os.cpu_count()} cores ({model[1] if model else platform.machine()}), Python "
        f"{platform.python_version()}, aiohttp {aiohttp.__version__}, load averages {load} at the start"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--verifiers-python", help="interpreter of an environment with verifiers installed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds of each measurement")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 64, 1024])
    parser.add_argument("--skip", choices=["throughput", "latency"], nargs="*", default=[])
    parser.add_argument("--serve", choices=["at-once", "slow"], help=argparse.SUPPRESS)
    parser.add_argument("--contender", choices=list(CONTENDERS), help=argparse.SUPPRESS)
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    parser.add_argument("--episodes", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.serve == "slow"))
    elif arguments.contender:
        play = CONTENDERS[arguments.contender]
        played = play(arguments.url, arguments.concurrency[0], arguments.seconds, arguments.episodes)
        print(json.dumps(asyncio.run(played)))
    else:
        print(f"{machine()}; medians (minimum to maximum) of {arguments.rounds} rounds\n")
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "protocol.json"
            told.write_text(json.dumps(protocol()))
            if "throughput" not in arguments.skip:
                throughput(arguments, told)
        if "latency" not in arguments.skip:
            latencies(arguments)


if __name__ == "__main__":
    main()
