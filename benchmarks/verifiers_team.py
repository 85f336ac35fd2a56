"""The team of `rollout_overhead.py` as an environment of `verifiers` 0.4; that script runs it.

`verifiers` finds its plug-ins by module name: this module is the task set, the harness and the
environment. The harness runs in the process, which `verifiers` allows; its own chat program would start
a process for every turn. It reaches the model through the interception server, as it must, with aiohttp.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import verifiers.v1 as vf

__all__ = ["TeamEnv", "TeamHarness", "TeamTaskset"]

NAME = Path(__file__).stem
PROTOCOL: dict[str, Any] = {}
_session: aiohttp.ClientSession | None = None


class TeamData(vf.TaskData):
    answer: str = ""


class TeamTask(vf.Task[TeamData, vf.State]):
    @vf.reward
    async def right(self, task: TeamData, trace: vf.Trace) -> float:
        """Cheaper than a real grader: the boxed text equals the answer."""
        return float(vf.extract_boxed_answer(trace.last_reply) == task.answer)


class TeamTaskset(vf.Taskset[TeamTask]):
    def load(self) -> Iterator[TeamTask]:
        yield task("solver", problem=PROTOCOL["problem"])


class TeamHarness(vf.Harness[vf.HarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, tool_interception_url=None):
        messages = [
            {"role": "system", "content": data.system_prompt},
            {"role": "user", "content": data.prompt},
        ]
        body = {"model": ctx.model, "messages": messages, "temperature": 1.0, "max_tokens": 4096}
        headers = {"Authorization": f"Bearer {secret}"}
        async with session().post(f"{endpoint}/chat/completions", json=body, headers=headers) as response:
            text = await response.text()
            return vf.ProgramResult(0 if response.status == 200 else 1, "", text)


SEAT = vf.AgentConfig(harness=vf.HarnessConfig(id=NAME), runtime=vf.SubprocessConfig())


class TeamConfig(vf.EnvConfig):
    solver: vf.AgentConfig = SEAT
    verifier: vf.AgentConfig = SEAT
    corrector: vf.AgentConfig = SEAT


class TeamEnv(vf.Env[TeamConfig]):
    """MarsRL's training chain: solve, then at most twice verify and, if it is judged wrong, correct."""

    async def run(self, task_: vf.Task, agents: vf.Agents) -> None:
        problem = PROTOCOL["problem"]
        solution = (await agents.solver.run(task_)).last_reply
        for _ in range(PROTOCOL["rounds"]):
            verify = task("verifier", problem=problem, solution=solution)
            report = (await agents.verifier.run(verify)).last_reply
            if report.strip().endswith("Correctness: Correct"):
                break
            correct = task("corrector", problem=problem, solution=solution, report=report)
            solution = (await agents.corrector.run(correct)).last_reply


def task(role: str, **fields: str) -> TeamTask:
    prompt = PROTOCOL["roles"][role]
    text = prompt["user"]
    for name, value in fields.items():
        text = text.replace(f"@{name}@", value)
    return TeamTask(TeamData(prompt=text, system_prompt=prompt["system"], answer=PROTOCOL["answer"]))


def session() -> aiohttp.ClientSession:
    global _session
    if _session is None:
        _session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    return _session


async def play(url: str, concurrency: int, seconds: float) -> dict[str, float]:
    config = vf.resolve_env_config({"taskset": {"id": NAME}})
    env = vf.load_environment(config)
    [first] = env.taskset
    ctx = vf.ModelContext(
        model="m",
        client=vf.EvalClientConfig(base_url=url, api_key_var="NO_SUCH_KEY"),
        sampling=vf.SamplingConfig(temperature=1.0, max_tokens=4096),
    )
    turns = episodes = 0

    async def work(until: float) -> None:
        nonlocal turns, episodes
        while True:
            [slot] = env.slots(first)
            episode = await env.run_slot(slot, ctx)
            if not episode.ok:
                raise RuntimeError(f"an episode failed: {episode.errors or episode.traces[-1].errors}")
            turns, episodes = turns + len(episode.traces), episodes + 1
            if time.monotonic() >= until:
                return

    async with env.serving():
        await work(0)  # warms up
        turns = episodes = 0
        wall, cpu = time.perf_counter(), time.process_time()
        until = time.monotonic() + seconds
        await asyncio.gather(*(work(until) for _ in range(concurrency)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    await session().close()
    return {"turns": turns, "episodes": episodes, "wall": wall, "cpu": cpu}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--protocol", type=Path, required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    sys.modules[NAME] = sys.modules["__main__"]  # verifiers imports its plug-ins by name
    PROTOCOL.update(json.loads(arguments.protocol.read_text()))
    print(json.dumps(asyncio.run(play(arguments.url, arguments.concurrency, arguments.seconds))))


if __name__ == "__main__":
    main()
