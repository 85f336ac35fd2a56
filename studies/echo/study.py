"""Rollouts and training apart, in miniature: what staleness saves in waiting, and what it costs in reward.

A learner and a sampler, each a process on one machine's Ray, with injected latencies. Rewards repeat to the
digit, since each turn is sampled by weights exactly as old as the bound allows; times do not.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from mars_env.distributed.cluster import load_ray
from mars_env.distributed.samplers import SamplerFleet
from mars_env.distributed.settings import RaySamplers
from mars_env.envs import Game, solve
from mars_env.envs.rubric_rewards import RubricReward
from mars_env.grading.rubrics import RubricGrader, WeightedSum
from mars_env.loggers import Logger
from mars_env.models import BatchLimits, HFModel
from mars_env.rollout import PipelineSettings
from mars_env.trainers.elsewhere import sampling_agents
from mars_env.trainers.loop import train
from mars_env.trainers.policy import Policy
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.samplers import Refresher
from mars_env.trainers.team import Team
from studies.common.claims import Claim
from studies.common.episodes import mean, mean_reward
from studies.common.ledger import Frozen, LedgerRow
from studies.common.study import Result, Run, Study, arm_by_arm
from studies.echo.capacity import Capacity
from studies.rubrics.lock import SlowAgent, guesser, locks, opener, played, run_settings, step_is_right

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
    usual = run_settings(seed, recipe)
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
    return Game(solve(), grader, rewards={"solver": RubricReward(WeightedSum())})


# ----------------------------------------------------------------------------------- the sampler's process


def far_opener(recipe: Recipe) -> dict[str, SlowAgent]:
    """The sampler's agent; its weights come from the learner."""
    torch.set_num_threads(1)
    model = fresh(recipe.model_copy(update={"warm_start": 1}))
    return {"solver_0": SlowAgent(opener(model), recipe.rollout_seconds)}


def late(states: Any, seconds: float) -> Any:
    """Weights that take a while to arrive."""
    time.sleep(seconds)
    return states


class LateFleet(SamplerFleet):
    """A sampler whose weights take `seconds` to arrive."""

    seconds = 0.0

    def put(self, states: Any) -> Any:
        """A task of Ray in place of an object."""
        ray = load_ray()
        return ray.remote(late).options(num_cpus=0).remote(states, self.seconds)


def fleet(team: Team, recipe: Recipe, bound: int) -> LateFleet:
    """One sampler, which acts with weights exactly as old as the bound allows."""
    make = partial(sampling_agents, partial(far_opener, recipe), frozenset(team.policies), True)
    started = LateFleet(team.agents, make, RaySamplers(count=1, refresh="demanded"), bound)
    started.seconds = recipe.spread_seconds
    return started


@contextmanager
def running_ray() -> Iterator[None]:
    """One Ray for all rows, whose processes find this study."""
    ray = load_ray()
    variables = {"PYTHONPATH": str(Path(__file__).parents[2]), "RAY_USAGE_STATS_ENABLED": "0"}
    ray.init(
        "local", num_cpus=1, include_dashboard=False, logging_level="ERROR",
        runtime_env={"env_vars": variables},
    )  # fmt: skip
    try:
        yield
    finally:
        ray.shutdown()


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

    def update_seconds(self) -> float:
        """Seconds of an update, without the waiting before it."""
        figures = self.figures()
        return figures["period"] * (1 - figures["idle"])


@arm_by_arm
async def play(arm: str, run: Run) -> Result:
    """Train one arm on the locks of a seed."""
    seed, recipe = run.seed, run.recipe
    bound, clipped = ARMS[arm]
    chosen, problems = settings(seed, bound, clipped, recipe), locks(seed)[: recipe.locks]
    model, clock = fresh(recipe), Clock(recipe.settled)
    policies = {"opener": Policy(model.module, model.tokenizer)}
    team = Team({"solver_0": opener(model)}, policies, Refresher({"opener": model}))
    detail: dict[str, Any] = {}
    figures: dict[str, float] = {}
    if arm == ALONE:
        await train(game(), team, problems, chosen, loggers=[clock])
    else:
        async with fleet(team, recipe, bound) as samplers:

            def refresh(policies: Mapping[str, Policy]) -> None:
                time.sleep(recipe.update_seconds)
                samplers.publish(policies)

            players = replace(team, agents=samplers.agents, refresh=refresh)
            await train(game(), players, problems, chosen, loggers=[clock])
        plan = Capacity(
            update_seconds=clock.update_seconds(),
            spread_seconds=recipe.spread_seconds,
            rollout_seconds=recipe.rollout_seconds,
            max_staleness=bound,
        )
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
    version="6d4363bc39ad",
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
    unrepeatable=tuple(arm for arm, (bound, _) in ARMS.items() if bound),  # their loss is another one now
    resources=running_ray,
    note=" (but for idle times)",
)
