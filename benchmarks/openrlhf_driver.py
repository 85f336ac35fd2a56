"""What OpenRLHF's rollouts cost their driver: 8 engines, 1,000 requests in flight, a real tokenizer.

    python scripts/make_smollm2.py                        # prints a folder with a real tokenizer
    python benchmarks/openrlhf_driver.py FOLDER [--tokens 4096] [--completions 4000]

Everything on the driver is real. Only the engines are not: each answers after a while with a completion of so
many tokens, unpickled for each request, as Ray would hand it over; what Ray itself costs is left out.

Prints CPU time of the driver for each completion, and how late its event loop wakes (p50, p99, greatest).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pickle
import platform
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from mars_env.envs import grouped
from mars_env.models.requests import Sampled
from mars_env.rollout import Job
from mars_env.rollout.pipeline import PipelineSettings, Training, pipeline
from mars_env.trainers.assembly import POLICY, agents_by_name, training_game, training_problems
from mars_env.trainers.openrlhf.rollouts.engines import EnginesModel
from mars_env.trainers.openrlhf.rollouts.responses import BatchShape, responses
from mars_env.trainers.recipes import MARSRL
from mars_env.trainers.samples import turn_samples

SENTENCE = "We check the case by hand, reduce both sides, and compare what is left of the sum. "
END = "The answer is \\boxed{%d}.\n\nCorrectness: %s"
TICK = 0.005  # seconds between two looks at the clock


class MockEngine:
    """Answers every request after a random while with one of some prepared completions."""

    def __init__(self, answers: Sequence[bytes], seconds: float, seed: int) -> None:
        self.answers, self.seconds, self.random = answers, seconds, random.Random(seed)
        self.in_flight = self.peak = self.served = 0

    async def sample(self, ids: Sequence[int], requests: Sequence[Mapping[str, Any]]) -> list[Sampled]:
        self.in_flight += len(requests)
        self.peak = max(self.peak, self.in_flight)
        await asyncio.sleep(self.random.uniform(0.5, 1.5) * self.seconds)
        self.in_flight -= len(requests)
        self.served += len(requests)
        return [Sampled(*pickle.loads(self.random.choice(self.answers))) for _ in requests]  # noqa: S301  # ours


def prepared(tokenizer: Any, tokens: int, number: int = 16) -> list[bytes]:
    """Completions as Ray carries them: ids, log-probabilities, why they ended, versions."""
    made = []
    for i in range(number):
        end = tokenizer.encode(END % (i, "Wrong" if i % 2 else "Correct"), add_special_tokens=False)
        body = tokenizer.encode(SENTENCE * tokens, add_special_tokens=False)[: max(0, tokens - len(end))]
        ids = (*body, *end)
        logprobs = tuple(-0.1 - 1e-5 * j for j in range(len(ids)))
        made.append(pickle.dumps((ids, logprobs, "stop", ((0, len(ids)),)), protocol=5))
    return made


async def lags(found: list[float]) -> None:
    """How late the event loop wakes, in seconds."""
    while True:
        due = time.perf_counter() + TICK
        await asyncio.sleep(TICK)
        found.append(time.perf_counter() - due)


async def measure(
    tokenizer: Any, *, engines: int, in_flight: int, tokens: int, completions: int, seconds: float
) -> dict[str, Any]:
    """Play until so many completions are trained, after as many that warm up as there are in flight."""
    environment = {"id": "aime-solve-verify-correct", "limit": 500}
    settings = MARSRL.with_(environment=environment, team={"model": "mock"})
    game = replace(training_game(settings), grower=grouped(settings.rollouts))
    problems = training_problems(settings)
    answers = prepared(tokenizer, tokens)
    mocks = [MockEngine(answers, seconds, seed) for seed in range(engines)]
    model = EnginesModel(mocks, tokenizer, context=16 * tokens + 65_536)
    settings = settings.with_(sampling={"temperature": 1.0, "max_tokens": 2 * tokens})
    team = agents_by_name(settings, game.rules, {POLICY: model})
    groups = max(1, in_flight // settings.rollouts.group)
    options = PipelineSettings(groups_per_update=groups, staleness=2, concurrency=groups)
    shape = BatchShape(ranks=8, rollout_micro=1, train_micro=1, batch=1024)

    def steps() -> Iterator[list[Job]]:
        sample = 0
        while True:
            yield [Job(problem, sample) for problem in problems]
            sample += 1

    late: list[float] = []
    watch = asyncio.create_task(lags(late))
    rows, began, before = 0, (0.0, 0.0), -1
    playing = pipeline(game, team, steps(), options, seed=0, training=Training(policy_version=lambda _: 0))
    try:
        async with aclosing(playing) as due:
            async for batch in due:
                samples = turn_samples(batch.groups, settings.train)
                if samples:
                    rows += len(responses(samples, shape, temperature=1.0, padding_token=0, ages={}))
                served = sum(mock.served for mock in mocks)
                if before < 0 and served >= in_flight:
                    late.clear()
                    rows, before, began = 0, served, (time.process_time(), time.perf_counter())
                elif before >= 0 and served - before >= completions:
                    break
    finally:
        watch.cancel()
    cpu, wall = time.process_time() - began[0], time.perf_counter() - began[1]
    done = sum(mock.served for mock in mocks) - before
    cut = statistics.quantiles(late, n=100, method="inclusive")
    return {
        "engines": engines,
        "in_flight_at_most": sum(mock.peak for mock in mocks),
        "tokens_a_completion": tokens,
        "completions": done,
        "rows": rows,
        "driver_cpu_ms_a_completion": 1000 * cpu / done,
        "completions_a_second": done / wall,
        "tokens_a_second_of_cpu": tokens * done / cpu,
        "lag_p50_ms": 1000 * cut[49],
        "lag_p99_ms": 1000 * cut[98],
        "lag_max_ms": 1000 * max(late),
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("tokenizer", help="folder of a tokenizer with a chat template")
    parser.add_argument("--engines", type=int, default=8)
    parser.add_argument("--in-flight", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--completions", type=int, default=4000)
    parser.add_argument("--seconds", type=float, default=60.0, help="mean time of an engine for a request")
    told = parser.parse_args(argv)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(told.tokenizer, local_files_only=True)
    sizes = {name: value for name, value in vars(told).items() if name != "tokenizer"}
    found = asyncio.run(measure(tokenizer, **sizes))
    where = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    where |= {"python": sys.version.split()[0], "load": os.getloadavg()[0], "vocabulary": len(tokenizer)}
    print(json.dumps(found | where))


if __name__ == "__main__":
    main()
