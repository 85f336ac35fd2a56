"""Rollouts and training apart, in miniature: what staleness saves in waiting, and what it costs in reward.

A learner and a sampler, each a process, on one machine, with injected latencies. Rewards repeat to the digit,
since each turn is sampled by weights exactly as old as the bound allows; times do not.
"""

from __future__ import annotations

import asyncio
import copy
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from typing import Any, Final

import torch

from mars_env.envs import Game, Solve
from mars_env.envs.rubric_rewards import RubricReward
from mars_env.grading.rubrics import RubricGrader, WeightedSum
from mars_env.loggers import Logger
from mars_env.models import BatchLimits, HFModel
from mars_env.rollout import PipelineSettings
from mars_env.trainers.local import Policy
from mars_env.trainers.loop import train
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.swarm import SamplerSettings, Swarm, SwarmSettings, run_sampler
from mars_env.trainers.swarm.sampler import Connection
from mars_env.trainers.team import Team, refresher
from mars_env.types import Action, Observation
from studies.common.claims import Claim
from studies.common.episodes import mean, mean_reward
from studies.common.ledger import Frozen, LedgerRow
from studies.common.study import Result, Run, Study, arm_by_arm
from studies.rubrics.lock import guesser, locks, opener, played, run_settings, step_is_right

MEASURED: Final = ("idle", "expected_idle", "period")
"""Figures that depend on the machine, and do not repeat."""
UNCLIPPED: Final = {"clip_low": 1.0, "clip_high": 1e6}


class Recipe(Frozen):
    """Every number of the study; see the plan for how they were chosen."""

    steps: int = 40
    rate: float = 3e-3
    warm_start: int = 300
    locks: int = 4
    group: int = 8
    samples: int = 16
    update_seconds: float = 0.2
    spread_seconds: float = 0.2
    rollout_seconds: float = 0.15
    settled: int = 10
    """Updates before the learner's time is measured."""


RECIPE: Final = Recipe()
QUICK: Final = Recipe(warm_start=30, steps=4, samples=2, settled=1)
ALONE: Final = "one process"
ARMS: Final[Mapping[str, tuple[int, bool]]] = {  # bound of staleness, clipped
    ALONE: (0, True),
    "S = 0": (0, True),
    **{
        f"S = {bound}{'' if clipped else ', unclipped'}": (bound, clipped)
        for clipped in (True, False)
        for bound in (1, 2, 4, 8)
    },
}
RIGHT: Final = "right"
COLUMNS: Final = {
    RIGHT: "right places",
    "reward": "reward in training",
    "idle": "learner idle",
    "expected_idle": "idle by the rule",
}
CLAIMS: Final = (
    Claim("S = 1 leaves the learner less idle than S = 0", "S = 0", "idle", "S = 1"),
    Claim("S = 2 leaves it less idle than S = 1", "S = 1", "idle", "S = 2"),
    Claim("without clipping S = 8 ends below S = 0", "S = 0", RIGHT, "S = 8, unclipped"),
    Claim("with clipping S = 8 ends below S = 0", "S = 0", RIGHT, "S = 8"),
    Claim("at S = 8 clipping ends above no clipping", "S = 8", RIGHT, "S = 8, unclipped"),
)


def settings(seed: int, bound: int, clipped: bool, recipe: Recipe) -> RunSettings:
    """As in the other studies of locks, but for staleness and clipping."""
    usual = run_settings(seed, recipe, None)
    train = usual.train.model_copy(update={} if clipped else UNCLIPPED)
    return usual.model_copy(update={"pipeline": PipelineSettings(staleness=bound), "train": train})


def fresh(recipe: Recipe) -> HFModel:
    """The warm start with weights of its own; each group is a batch, whatever the timing."""
    start = guesser(steps=recipe.warm_start)
    parts = copy.deepcopy(start.module), start.tokenizer
    return HFModel(parts, device="cpu", name="opener", batch=BatchLimits(recipe.group))


def game() -> Game:
    """The share of right places is the reward; programs judge them."""
    grader = RubricGrader(aggregate=WeightedSum(), checks={"step": step_is_right})
    return Game(Solve(), grader, rewards={"solver": RubricReward(WeightedSum())})


# ----------------------------------------------------------------------------------- the sampler's process


@dataclass(frozen=True)
class Far:
    """The opener, which takes a while."""

    agent: Any
    seconds: float
    policy: str = "opener"

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Act, late."""
        await asyncio.sleep(self.seconds)
        return list(await self.agent.act(observation, n, seed))


@dataclass(frozen=True)
class Slow:
    """Weights that take a while to arrive."""

    weights: Connection
    seconds: float

    async def fetch(self, publication: Any) -> Any:
        """Fetch, late."""
        await asyncio.sleep(self.seconds)
        return await self.weights.fetch(publication)


def sampler(runs: Any) -> None:
    """The process of the sampler: serves one learner after the other, until it gets None."""
    torch.set_num_threads(1)
    while (run := runs.get()) is not None:
        url, recipe = run[0], Recipe.model_validate(run[1])
        model = fresh(recipe.model_copy(update={"warm_start": 1}))  # its weights come from the learner
        asyncio.run(sample(url, model, recipe))


async def sample(url: str, model: HFModel, recipe: Recipe) -> None:
    """Act for one learner."""
    await run_sampler(
        {"solver_0": Far(opener(model), recipe.rollout_seconds)},
        {"opener": model},
        url,
        SamplerSettings(refresh="demanded"),
        weights=Slow(Connection(url), recipe.spread_seconds),
    )


@contextmanager
def samplers() -> Iterator[Any]:
    """A queue of runs, for a sampler in a process of its own."""
    context = get_context("spawn")
    runs = context.SimpleQueue()
    process = context.Process(target=sampler, args=(runs,), daemon=True)
    process.start()
    try:
        yield runs
    finally:
        runs.put(None)
        process.join(30)
        process.kill()


# ----------------------------------------------------------------------------------- the learner's process


@dataclass
class Clock(Logger):
    """A logger that measures the learner's time."""

    settled: int
    at: list[float] = field(default_factory=list)
    rows: list[Mapping[str, float]] = field(default_factory=list)

    def start(self, step: int) -> None:
        """Nothing is to be measured yet."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """One update."""
        self.at.append(time.monotonic())
        self.rows.append(values)

    def figures(self) -> dict[str, float]:
        """The share of the time in which the learner waited, and seconds from one update to the next."""
        first = min(self.settled, len(self.at) - 1) - 1
        elapsed = self.at[-1] - self.at[first]
        waited = sum(row["seconds/waited"] for row in self.rows[first + 1 :])
        return {"idle": waited / elapsed, "period": elapsed / (len(self.at) - 1 - first)}


@arm_by_arm
async def play(arm: str, run: Run) -> Result:
    """Train one arm on the locks of a seed."""
    seed, recipe, runs = run.seed, run.recipe, run.resource
    bound, clipped = ARMS[arm]
    wanted, problems = settings(seed, bound, clipped, recipe), locks(seed)[: recipe.locks]
    model, clock = fresh(recipe), Clock(recipe.settled)
    policies = {"opener": Policy(model.module, model.tokenizer)}
    detail: dict[str, Any] = {}
    if arm == ALONE:
        team = Team({"solver_0": opener(model)}, policies, refresher({"opener": model}))
        await train(game(), team, problems, wanted, loggers=[clock])
        figures = {}
    else:
        with tempfile.TemporaryDirectory() as folder:
            chosen = SwarmSettings(max_staleness=bound, patience=300)
            async with Swarm({"solver_0": "opener"}, policies, folder, chosen) as swarm:
                runs.put((swarm.url, recipe.model_dump()))

                def refresh(policies: Mapping[str, Policy]) -> None:
                    time.sleep(recipe.update_seconds)
                    swarm.publish(policies)

                await train(
                    game(), replace(swarm.team, refresh=refresh), problems, wanted, loggers=[swarm, clock]
                )
            plan = swarm.capacity()
        assert plan is not None
        figures = {**clock.figures(), "expected_idle": plan.idle(1)}
        detail = {"capacity": plan.model_dump(), "samplers": plan.samplers}
    rewards = [row["role/solver/reward"] for row in clock.rows]
    detail |= {
        "reward": [round(reward, 3) for reward in rewards],
        "oldest": max(row["pipeline/oldest"] for row in clock.rows),
        "dropped": sum(row["pipeline/dropped"] for row in clock.rows),
    }
    trees = await played(game(), model, problems, run)
    return Result({RIGHT: mean_reward(trees), "reward": mean(rewards), **figures}, detail)


def shown(made: Sequence[LedgerRow]) -> dict[str, str]:
    """What must be exact: the synchronous run's figures, the bound, nothing dropped."""
    by = {(each.arm, each.seed): each for each in made}
    seeds = sorted({each.seed for each in made})
    same = [
        seed
        for seed in seeds
        if all(by["S = 0", seed].figures[name] == by[ALONE, seed].figures[name] for name in (RIGHT, "reward"))
    ]
    apart = [each for each in made if each.arm != ALONE]
    kept = sum(each.detail["oldest"] == ARMS[each.arm][0] and not each.detail["dropped"] for each in apart)
    more = (
        f"`S = 0` has the figures of `{ALONE}` to the digit on {len(same)} of {len(seeds)} seeds. In {kept} "
        f"of {len(apart)} runs the oldest turn was exactly S versions old and none was dropped."
    )
    return {"more": more}


STUDY = Study(
    name="echo",
    task="Echo: two processes",
    starts="1",
    arms=tuple(ARMS),
    recipe=RECIPE,
    quick=QUICK,
    play=play,
    columns=COLUMNS,
    shown=shown,
    claims=CLAIMS,
    measured=MEASURED,
    resources=samplers,
    note=" (but for idle times)",
)
