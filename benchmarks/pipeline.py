"""The agentic pipeline compared with the barrier: idle shares, and the time to the n-th update.

    python benchmarks/pipeline.py                  # the sweep in the simulator: a quarter of an hour
    python benchmarks/pipeline.py --quick          # a tenth of the updates: start and end of a run weigh more
    python benchmarks/pipeline.py --engine hf      # both on a real engine, with the miniature
    python benchmarks/pipeline.py --engine vllm

*Barrier*: all agents finish a step's problems, then the trainer updates on their groups. *Pipeline*: a
group goes to the trainer as soon as its agent has finished it, within a bound on staleness. Both play the
same trees (a tree depends only on its seed) on the same engine, and train every group once, in the same
number of updates.

The parameters were fixed, and the lower bound was written, before the scheduler was.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simulator import Cluster, Report, simulate

from mars_env.envs import GroupedSettings
from mars_env.types import Completion, Group, Model, Prompt, Sampling

sys.path.append(str(Path(__file__).parents[1]))  # for studies

# ------------------------------------------------------------------------------------------ frozen parameters
# A quarter of MarsRL's step (arXiv 2511.11373: 128 problems, groups of 8, 2 branches, chains S, V, C, V, C
# with outputs of at most 64k tokens, in segments of 16k), on an engine as wide as the first stage of a step.

SEED = 0
PROBLEMS_PER_STEP = 32
GROUP, BRANCHES = 8, 2
UPDATES = 100
SLOTS = 256
TOKENS_PER_SECOND = 40.0  # of one slot
LIMIT, SEGMENT = 65_536, 16_384
MEDIAN = 12_288
SPREADS = (0.5, 1.0, 1.5)  # standard deviations of the logarithm of output lengths
SOLVER_RIGHT, VERIFIER_RIGHT, CORRECTOR_RIGHT = 0.5, 0.75, 0.6
TRAINER_SPEEDS = (0.5, 1.0, 2.0, 4.0)  # tokens per second, relative to the engine with all slots busy
SECONDS_PER_UPDATE = 30.0  # in addition to the tokens: optimiser, sending the weights
MAX_STALENESS = 2

TARGET_OVER_BOUND, TARGET_OVER_BARRIER = 1.05, 2.0


# -------------------------------------------------------------------------------------------- the lower bound


@dataclass(frozen=True, slots=True)
class Piece:
    """A group as the lower bound sees it."""

    path: float  # seconds from its tree's start until it is finished, with unlimited slots
    tokens: int


def lower_bound(
    pieces: Sequence[Piece], per_update: int, engine_rate: float, trainer_rate: float, fixed: float
) -> float:
    """A lower bound on the seconds in which any scheduler trains all pieces, `per_update` in each update.

    An update starts when all its groups are ready. For every k: the k-th update cannot start before k batches
    of groups can be ready, that is, before the engine has made as many tokens as the smallest ones contain,
    and before as many critical paths have ended. From then on, at least everything except the largest groups
    that k - 1 updates can have contained remains to be trained. The bound ignores staleness, which can only
    lower it. Rates are tokens per second; an update takes `fixed` seconds in addition to its tokens.
    """
    paths = sorted(piece.path for piece in pieces)
    tokens = sorted(piece.tokens for piece in pieces)
    total = sum(tokens)
    updates = -(-len(pieces) // per_update)
    bound = 0.0
    for k in range(1, updates + 1):
        there = min(k * per_update, len(pieces))
        begins = max(paths[there - 1], sum(tokens[:there]) / engine_rate)
        largest = sum(tokens[len(tokens) - (k - 1) * per_update :]) if k > 1 else 0
        bound = max(bound, begins + (total - largest) / trainer_rate + (updates - k + 1) * fixed)
    return bound


# ----------------------------------------------------------------------------------------------- the sweep


@dataclass(frozen=True, slots=True)
class Row:
    """One setting's result; times in seconds."""

    spread: float
    speed: float
    updates: int
    per_update: int
    bound: float
    barrier: Report
    agentic: Report

    @property
    def over_bound(self) -> float:
        return self.agentic.seconds / self.bound

    @property
    def over_barrier(self) -> float:
        return self.barrier.seconds / self.agentic.seconds

    @property
    def allowed(self) -> float:
        return self.barrier.seconds / self.bound


class Workload:
    """Collects the trained groups in the form that the lower bound needs."""

    def __init__(self) -> None:
        self._stages: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)

    def add(self, group: Group) -> None:
        lengths = [turn.action.completions[0].completion_tokens for turn in group.turns]
        stage = group.turns[0].id.count(".")
        self._stages[group.turns[0].tree_id, stage].append((max(lengths), sum(lengths)))

    def pieces(self, tokens_per_id: int) -> list[Piece]:
        """A stage starts once all groups of the previous stage are ready: the grower chooses among them."""
        pieces, ends = [], defaultdict(float)
        for (tree, stage), groups in sorted(self._stages.items()):
            begins = ends[tree, stage - 1] if stage else 0.0
            for longest, total in groups:
                path = begins + longest * tokens_per_id / TOKENS_PER_SECOND
                ends[tree, stage] = max(ends[tree, stage], path)
                pieces.append(Piece(path, total * tokens_per_id))
        return pieces


def cluster(spread: float, speed: float, updates: int) -> Cluster:
    return Cluster(
        seed=SEED,
        steps=updates,
        problems_per_step=PROBLEMS_PER_STEP,
        rollouts=GroupedSettings(group=GROUP, branches=BRANCHES),
        right={"solver": SOLVER_RIGHT, "verifier": VERIFIER_RIGHT, "corrector": CORRECTOR_RIGHT},
        slots=SLOTS,
        tokens_per_second=TOKENS_PER_SECOND,
        median_tokens=MEDIAN,
        spread=spread,
        max_tokens=LIMIT,
        segment_tokens=SEGMENT,
        trainer_tokens_per_second=speed * SLOTS * TOKENS_PER_SECOND,
        seconds_per_update=SECONDS_PER_UPDATE,
        staleness=0,
    )


Base = tuple[Cluster, Report, list[Piece]]


def barrier_of(setting: tuple[float, int]) -> Base:
    """The barrier for a spread, at one trainer speed, and the workload."""
    gc.disable()  # nothing here needs it, and it costs a quarter of the time
    spread, updates = setting
    base, workload = cluster(spread, 1.0, updates), Workload()
    report = simulate(base, watch=workload.add)
    return base, report, workload.pieces(base.resolution)


def at_speed(base: Cluster, report: Report, other: Cluster) -> Report:
    """A barrier's report at another trainer speed: rollouts and training alternate, so this is exact."""
    ends, before, now = [], 0.0, 0.0
    for end, tokens in zip(report.updates, report.batches, strict=True):
        rollout = end - before - tokens / base.trainer_tokens_per_second
        before, now = end, now + rollout + tokens / other.trainer_tokens_per_second
        ends.append(now)
    training = report.tokens / other.trainer_tokens_per_second + len(ends) * SECONDS_PER_UPDATE
    busy = (1 - report.engine_idle) * report.seconds
    return replace(
        report, updates=tuple(ends), engine_idle=1 - busy / ends[-1], trainer_idle=1 - training / ends[-1]
    )


def row_of(setting: tuple[float, float, int, Base]) -> Row:
    """Barrier, bound and pipeline under one setting."""
    gc.disable()
    spread, speed, updates, (base, report, pieces) = setting
    alternating = cluster(spread, speed, updates)
    barrier = at_speed(base, report, alternating)
    per_update = -(-barrier.groups // updates)
    changes = {"staleness": MAX_STALENESS, "groups_per_update": per_update}
    agentic = simulate(alternating.model_copy(update=changes))
    same = (agentic.groups, agentic.tokens, len(agentic.updates)) == (barrier.groups, barrier.tokens, updates)
    if not same or agentic.dropped:
        raise SystemExit("not comparable: the two did not train the same groups in as many updates")
    rates = alternating.engine_rate, alternating.trainer_tokens_per_second
    bound = lower_bound(pieces, per_update, *rates, SECONDS_PER_UPDATE)
    return Row(spread, speed, updates, per_update, bound, barrier, agentic)


HEAD = (
    "| spread | trainer / engine | hours, barrier | hours, pipeline | bound | pipeline / bound "
    "| barrier / pipeline | barrier / bound | engine idle | trainer idle | 1st update | middle update "
    "| ages |"
)


def line(row: Row) -> str:
    """A row of the table; idle shares and update times are given as barrier -> pipeline."""
    barrier, agentic = row.barrier, row.agentic
    middle = row.updates // 2 - 1 if row.updates > 1 else 0
    ages = " ".join(f"{age}:{count / agentic.groups:.0%}" for age, count in agentic.ages.items())
    cells = [
        f"{row.spread:g}",
        f"{row.speed:g}",
        f"{barrier.seconds / 3600:.1f}",
        f"{agentic.seconds / 3600:.1f}",
        f"{row.bound / 3600:.1f}",
        f"{row.over_bound:.3f}",
        f"{row.over_barrier:.2f}",
        f"{row.allowed:.2f}",
        f"{barrier.engine_idle:.0%} -> {agentic.engine_idle:.0%}",
        f"{barrier.trainer_idle:.0%} -> {agentic.trainer_idle:.0%}",
        f"{barrier.updates[0] / 3600:.1f} -> {agentic.updates[0] / 3600:.1f} h",
        f"{barrier.updates[middle] / 3600:.1f} -> {agentic.updates[middle] / 3600:.1f} h",
        ages,
    ]
    return "| " + " | ".join(cells) + " |"


def sweep(updates: int, processes: int) -> None:
    """Run all settings and print each row as soon as it is ready; then print how the targets were met."""
    print(f"{updates} updates of {PROBLEMS_PER_STEP} problems, {SLOTS} slots, staleness {MAX_STALENESS}\n")
    print(HEAD + "\n" + "|---" * HEAD.count(" | ") + "|---|", flush=True)
    rows = []
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        bases = pool.map(barrier_of, [(spread, updates) for spread in SPREADS], chunksize=1)
        settings = [
            (spread, speed, updates, base)
            for spread, base in zip(SPREADS, bases, strict=True)
            for speed in TRAINER_SPEEDS
        ]
        for row in pool.imap(row_of, settings):
            rows.append(row)
            print(line(row), flush=True)
    near = sum(row.over_bound <= TARGET_OVER_BOUND for row in rows)
    able = [row for row in rows if row.allowed >= TARGET_OVER_BARRIER]
    fast = sum(row.over_barrier >= TARGET_OVER_BARRIER for row in able)
    print(f"\nwithin {TARGET_OVER_BOUND - 1:.0%} of the bound: {near} of {len(rows)}")
    print(f"{TARGET_OVER_BARRIER:g} times the barrier, where the bound allows it: {fast} of {len(able)}")


# ------------------------------------------------------------------------------------------ a real engine


class Watched:
    """A model that records how long it had no requests."""

    def __init__(self, model: Model) -> None:
        self.model, self.name = model, "miniature"
        self.idle, self._under_way, self._since = 0.0, 0, time.perf_counter()

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Completion]:
        if not self._under_way:
            self.idle += time.perf_counter() - self._since
        self._under_way += 1
        try:
            return await self.model.complete(prompt, n, sampling)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._since = time.perf_counter()


class Clock:
    """A logger that records the time of each update and how long the trainer waited for it."""

    def __init__(self) -> None:
        self.began, self.ends, self.waited, self.figures = 0.0, [], 0.0, []

    def start(self, step: int) -> None:
        self.began = time.perf_counter()

    def log(self, step: int, figures: dict[str, float]) -> None:
        self.ends.append(time.perf_counter() - self.began)
        self.waited += figures["seconds/waited"]
        self.figures.append(figures)

    def close(self) -> None:
        pass


REAL_PROBLEMS, REAL_UPDATES, REAL_GROUPS = 16, 8, 120  # about as many as these problems give


Player = tuple[Model, Callable[[Any, int], None]]
"""An engine with its own weights, and a function that loads a trained module's weights and version."""


@contextmanager
def engine_of(kind: str) -> Iterator[Player]:
    from mars_env.miniature import load

    miniature = load()
    if kind == "hf":
        yield miniature, miniature.refresh
        return
    try:
        from mars_env.models.vllm import VLLMModel
        from studies.common.head_padding import pad_heads

        with tempfile.TemporaryDirectory() as directory:  # its heads are too narrow for vLLM on CPUs
            pad_heads(miniature.module, 32).save_pretrained(directory)
            miniature.tokenizer.save_pretrained(directory)
            # On CPUs, a seeded request whose prompt is read in chunks crashes vLLM's engine ("CPU Generator
            # does not use offset").
            whole = {"enable_chunked_prefill": False}
            with VLLMModel(directory, eager=True, name="miniature", options=whole) as model:
                yield model, lambda module, version: model.refresh(pad_heads(module, 32), version)
    except ImportError as error:
        raise SystemExit(f"vLLM is not installed here: {error}") from error


def real(kind: str, engine: Model, put: Callable[[Any, int], None]) -> None:
    """Barrier and pipeline on a real engine: the miniature, trained by the local trainer."""
    import asyncio

    from mars_env import load_problems
    from mars_env.envs import Game, solve_verify_correct
    from mars_env.grading import grader_for
    from mars_env.miniature import load
    from mars_env.miniature.agents import team
    from mars_env.rollout.pipeline import PipelineSettings
    from mars_env.trainers import Policy, RunSettings, Team, TrainConfig, train

    print(f"{REAL_UPDATES} updates of {REAL_PROBLEMS} problems or {REAL_GROUPS} groups, engine {kind}\n")
    print("| | seconds | turns trained | turns/s | 1st update, s | engine without a request | trainer idle |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name, options in {
        "barrier": PipelineSettings(staleness=0),
        "pipeline": PipelineSettings(
            staleness=MAX_STALENESS, groups_per_update=REAL_GROUPS, concurrency=REAL_GROUPS // 2
        ),
    }.items():
        trained, model, clock = load(), Watched(engine), Clock()

        def refresh(policies):
            put(policies["miniature"].model, policies["miniature"].version)

        settings = RunSettings(
            seed=SEED,
            steps=REAL_UPDATES,
            problems_per_step=REAL_PROBLEMS,
            rollouts=GroupedSettings(group=GROUP, branches=BRANCHES, sampling="balanced"),
            pipeline=options,
            train=TrainConfig(learning_rate=1e-4),
        )
        asyncio.run(
            train(
                Game(solve_verify_correct(schedule="training"), grader_for("math")),
                Team(team(model), {"miniature": Policy(trained.module)}, refresh),
                load_problems("arithmetic", seed=SEED, split="train"),
                settings,
                loggers=[clock],
            )
        )
        seconds = clock.ends[-1]
        turns = sum(v for f in clock.figures for k, v in f.items() if k.startswith("role/") and "/turns" in k)
        print(
            f"| {name} | {seconds:.1f} | {turns:.0f} | {turns / seconds:.0f} | {clock.ends[0]:.1f} "
            f"| {model.idle / seconds:.0%} | {clock.waited / seconds:.0%} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the updates")
    parser.add_argument("--processes", type=int, default=1, help="settings simulated at the same time")
    parser.add_argument("--engine", choices=("simulator", "hf", "vllm"), default="simulator")
    options = parser.parse_args()
    if options.engine == "simulator":
        sweep(UPDATES // 10 if options.quick else UPDATES, options.processes)
    else:
        with engine_of(options.engine) as (engine, put):
            real(options.engine, engine, put)


if __name__ == "__main__":
    main()
