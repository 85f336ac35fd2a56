"""A deterministic simulation of rollouts and training: the real scheduler on a virtual clock.

Only the parts that take time are simulated: an engine of slots that sample outputs of log-normal length, and
a trainer. The event loop never waits but jumps to the next timer, so a day of a cluster takes seconds, and
the same seed gives the same day.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from mars_env.envs import Game, GroupedSettings, grouped, solve_verify_correct
from mars_env.errors import ConfigError, MarsError
from mars_env.players import assign_agents
from mars_env.rollout.engine import Job
from mars_env.rollout.pipeline import PipelineSettings, pipeline
from mars_env.rollout.segments import SegmentedModel
from mars_env.seeds import derive_seed
from mars_env.types import Action, Completion, Grade, Group, Model, Observation, Problem, Prompt, Sampling

T = TypeVar("T")

# --------------------------------------------------------------------------------------------- virtual time


class _Jump(selectors.SelectSelector):
    """A selector that advances a clock instead of waiting; files never become ready."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise MarsError("the simulation is stuck: everything waits, and there is no timer left")
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock starts at 0 and jumps to the next timer, whatever threads and sockets do."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.now


def run_virtual(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a virtual clock; a `MarsError` if everything waits without a timer.

    Example:
        >>> async def a_day():
        ...     await asyncio.sleep(86_400)
        ...     return asyncio.get_running_loop().time()
        >>> run_virtual(a_day())
        86400.0
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)


# ------------------------------------------------------------------------------------- what takes time


class SimulatedEngine:
    """A model server with a number of slots, each of which samples at a fixed rate; other requests wait.

    The length of a sample is log-normal and follows from its seed; at ``max_tokens`` it is cut off. A request
    whose prompt ends with the token ids of a sample that was cut off continues that sample. One token id
    stands for `tokens_per_id` tokens, so that long outputs stay small here; limits count ids. Reading
    prompts takes no time. `version` is recorded with whatever is sampled from now on; `busy` counts the
    slot seconds used so far.

    Example:
        >>> engine = SimulatedEngine(slots=1, tokens_per_second=100.0, median=1000, spread=0.0)
        >>> async def two():
        ...     await engine.complete([0], 2, Sampling(max_tokens=5000, seed=1))
        ...     return asyncio.get_running_loop().time()
        >>> run_virtual(two())
        20.0
    """

    def __init__(
        self, slots: int, tokens_per_second: float, median: float, spread: float, *, tokens_per_id: int = 1
    ) -> None:
        self.name = "simulated"
        self.version = 0
        self.busy = 0.0
        self._room = asyncio.Semaphore(slots)
        self._seconds = tokens_per_id / tokens_per_second
        self._median, self._spread = median / tokens_per_id, spread
        self._lengths: list[int] = []

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Completion]:
        return list(await asyncio.gather(*(self._sample(prompt, i, sampling) for i in range(n))))

    async def _sample(self, prompt: Prompt, sample: int, sampling: Sampling) -> Completion:
        read = tuple(prompt)
        number, done = self._continued(read)
        if number == 0:
            seed = derive_seed(sampling.seed or 0, sample)
            self._lengths.append(max(1, round(self._median * math.exp(self._spread * _normal(seed)))))
            number = len(self._lengths)
        left = self._lengths[number - 1] - done
        count = min(left, sampling.max_tokens)
        async with self._room:
            version = self.version
            await asyncio.sleep(count * self._seconds)
        self.busy += count * self._seconds
        return Completion(
            "",
            "stop" if count == left else "length",
            prompt_ids=read,  # type: ignore[arg-type]
            token_ids=(number,) * count,
            logprobs=(-1.0,) * count,
            temperature=sampling.temperature,
            versions=((version, count),),
            prompt_tokens=len(read),
            completion_tokens=count,
        )

    def _continued(self, read: Sequence[Any]) -> tuple[int, int]:
        """The number of the sample that a prompt ends with, and its length so far; 0, 0 for a fresh one."""
        number = read[-1]
        if not isinstance(number, int) or number == 0:
            return 0, 0
        return number, read.count(number)


@dataclass(frozen=True, slots=True)
class SimulatedAgent:
    """Plays a role of `solve_verify_correct` at random: it is right with a given probability.

    Its texts and its model's lengths follow from the seed, so the trees are the same whatever the schedule.
    """

    model: Model
    right: float
    sampling: Sampling
    policy: str = "simulated"

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        completions = await self.model.complete((0,), n, replace(self.sampling, seed=seed))
        return [
            Action(self._text(observation, derive_seed(seed, "right", i) < self.right * 2**63), (completion,))
            for i, completion in enumerate(completions)
        ]

    def _text(self, observation: Observation, right: bool) -> str:
        if "solution" not in observation or "report" in observation:
            return "right" if right else "wrong"
        correct = (observation["solution"] == "right") == right
        return f"Correctness: {'Correct' if correct else 'Wrong'}"


class _Grader:
    async def grade(self, problem: Problem, text: str) -> Grade:
        return Grade.correct() if text == "right" else Grade.wrong("by chance")


# ------------------------------------------------------------------------------------------ a whole cluster


class Cluster(BaseModel):
    """A cluster and a workload, in tokens and seconds. The defaults are MarsRL's step (arXiv 2511.11373).

    Example:
        >>> Cluster(slots=4096).engine_rate
        163840.0
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 0
    steps: PositiveInt = 10
    problems_per_step: PositiveInt = 128
    rollouts: GroupedSettings = GroupedSettings()
    right: Mapping[str, float] = {"solver": 0.5, "verifier": 0.75, "corrector": 0.6}

    slots: PositiveInt = 1024  # of all engines together
    tokens_per_second: PositiveFloat = 40.0  # of one slot
    median_tokens: PositiveFloat = 12_288
    spread: NonNegativeFloat = 1.0  # standard deviation of the logarithm of lengths
    max_tokens: PositiveInt = 65_536
    segment_tokens: PositiveInt | None = 16_384  # None: outputs are sampled in one piece
    resolution: PositiveInt = 256  # lengths are rounded to multiples of this

    trainer_tokens_per_second: PositiveFloat = 40_960.0
    seconds_per_update: NonNegativeFloat = 30.0  # besides its tokens: optimiser, sending the weights
    staleness: NonNegativeInt = 2
    groups_per_update: PositiveInt | None = None  # None with a staleness of 0 is the barrier

    @property
    def engine_rate(self) -> float:
        """Tokens a second with all slots busy."""
        return self.slots * self.tokens_per_second


@dataclass(frozen=True, slots=True)
class Report:
    """What a simulated run did."""

    updates: tuple[float, ...]  # when each was finished, in seconds
    batches: tuple[int, ...]  # tokens that each update trained
    engine_idle: float  # share of slot seconds, up to the last update
    trainer_idle: float
    groups: int
    dropped: int  # turns that had become too old
    ages: Mapping[int, int]  # number of groups by age, in versions

    @property
    def seconds(self) -> float:
        return self.updates[-1]

    @property
    def tokens(self) -> int:
        return sum(self.batches)


def simulate(cluster: Cluster, *, watch: Callable[[Group], None] | None = None) -> Report:
    """Play a workload and train on it, on a virtual clock; `watch` gets every group that is trained.

    Example:
        >>> small = Cluster(steps=4, problems_per_step=2, slots=16, trainer_tokens_per_second=640.0)
        >>> barrier = simulate(small.model_copy(update={"staleness": 0}))
        >>> agentic = simulate(small.model_copy(update={"groups_per_update": barrier.groups // 4}))
        >>> agentic.groups == barrier.groups, agentic.seconds < barrier.seconds
        (True, True)
    """
    if cluster.resolution > min(cluster.max_tokens, cluster.segment_tokens or cluster.max_tokens):
        raise ConfigError("the resolution must not exceed a segment: all lengths would look the same")
    return run_virtual(_simulated(cluster, watch))


async def _simulated(cluster: Cluster, watch: Callable[[Group], None] | None) -> Report:
    rate, median = cluster.tokens_per_second, cluster.median_tokens
    resolution = cluster.resolution
    engine = SimulatedEngine(cluster.slots, rate, median, cluster.spread, tokens_per_id=resolution)
    limit = cluster.max_tokens // cluster.resolution
    segment = limit if cluster.segment_tokens is None else cluster.segment_tokens // cluster.resolution
    model = SegmentedModel(engine, segment)
    rules = solve_verify_correct(schedule="training")
    game = Game(rules, _Grader(), grower=grouped(cluster.rollouts))
    sampling = Sampling(max_tokens=limit)
    team = {role: SimulatedAgent(model, right, sampling) for role, right in cluster.right.items()}
    steps = (
        [Job(Problem(f"{step}/{i}", "", ""), step) for i in range(cluster.problems_per_step)]
        for step in range(cluster.steps)
    )
    settings = PipelineSettings(staleness=cluster.staleness, groups_per_update=cluster.groups_per_update)
    updates: list[float] = []
    batches: list[int] = []
    ages: Counter[int] = Counter()
    groups = dropped = 0
    busy = 0.0
    clock = asyncio.get_running_loop().time
    played = pipeline(game, assign_agents(rules, team), steps, settings, seed=cluster.seed)
    async with aclosing(played) as due:
        async for batch in due:
            tokens = cluster.resolution * sum(map(_tokens, batch.groups))
            seconds = tokens / cluster.trainer_tokens_per_second + cluster.seconds_per_update
            await asyncio.sleep(seconds)
            engine.version += 1
            updates.append(clock())
            batches.append(tokens)
            busy += seconds
            groups += len(batch.groups)
            dropped += batch.dropped
            ages.update(batch.ages)
            for group in batch.groups if watch is not None else ():
                watch(group)  # type: ignore[misc]
    return Report(
        tuple(updates),
        tuple(batches),
        1 - engine.busy / (cluster.slots * updates[-1]),
        1 - busy / updates[-1],
        groups,
        dropped,
        dict(sorted(ages.items())),
    )


def _tokens(group: Group) -> int:
    return sum(completion.completion_tokens for turn in group.turns for completion in turn.action.completions)


def _normal(seed: int) -> float:
    """A standard normal number of a 63-bit seed."""
    return NormalDist().inv_cdf((seed + 0.5) / 2**63)
