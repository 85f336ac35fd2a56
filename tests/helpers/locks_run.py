"""Short trainings on locks, in this process or with samplers on Ray: the parts of a run."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mars_env.envs import Game, GroupedSettings, solve
from mars_env.envs.rubric_rewards import RubricReward
from mars_env.grading.rubrics import RubricGrader, WeightedSum
from mars_env.miniature.model import build_model, build_tokenizer
from mars_env.miniature.protocol import END, PAD
from mars_env.models import BatchLimits, HFModel
from mars_env.rollout import PipelineSettings
from mars_env.trainers import Policy, Refresher, RunSettings, Team, TrainConfig
from mars_env.types import Action, Observation

sys.path.append(str(Path(__file__).parents[2]))

from studies.rubrics.lock import PATTERN, SAMPLING, SHAPE, VOCABULARY, SlowAgent, locks, opener, step_is_right

GROUP, LOCKS = 4, 3


def model() -> HFModel:
    """A new random model; each group is a batch of its own, so batches do not depend on the timing."""
    torch.set_num_threads(1)
    parts = build_model(0, len(VOCABULARY), SHAPE), build_tokenizer(VOCABULARY, (PAD, END), PATTERN)
    return HFModel(parts, device="cpu", name="opener", batch=BatchLimits(GROUP))


def game() -> Game:
    """The share of right places is the reward."""
    grader = RubricGrader(aggregate=WeightedSum(), checks={"step": step_is_right})
    return Game(solve(), grader, rewards={"solver": RubricReward(WeightedSum())})


def problems():
    """A few locks."""
    return locks(0)[:LOCKS]


def settings(bound: int = 0, steps: int = 3, **changes) -> RunSettings:
    """A short run."""
    return RunSettings(
        seed=1,
        steps=steps,
        problems_per_step=LOCKS,
        rollouts=GroupedSettings(group=GROUP, branches=1),
        sampling=SAMPLING,
        pipeline=PipelineSettings(staleness=bound, **changes),
        train=TrainConfig(learning_rate=3e-3),
    )


def named_opener(name: str, model: HFModel) -> Any:
    """The opener, for `make_team`."""
    return opener(model)


def team(trained: HFModel, seconds: float = 0.0) -> Team:
    """The opener, which shares the weights that are trained."""
    policies = {"opener": Policy(trained.module, trained.tokenizer)}
    agent = SlowAgent(opener(trained), seconds) if seconds else opener(trained)
    return Team({"solver_0": agent}, policies, Refresher({"opener": trained}))


MANY = 12
"""Acts of the fast sampler for which the slow one waits."""


def uneven_agents(folder: Path) -> dict[str, "Listed"]:
    """The opener in a process of its own, which lists its acts in `folder`; the first one is slow."""
    try:
        (folder / "taken").touch(exist_ok=False)
        name = "slow"
    except FileExistsError:
        name = "fast"
    return {"solver_0": Listed(opener(model()), folder / name, folder / "fast")}


@dataclass(frozen=True)
class Listed:
    """Writes a line for each act. The slow one acts when the fast one has acted `MANY` times."""

    agent: Any
    log: Path
    fast: Path
    policy: str = "opener"

    @property
    def model(self) -> Any:
        """The agent's."""
        return self.agent.model

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Act, and write it down."""
        while self.log != self.fast and acts_in(self.fast) < MANY:
            await asyncio.sleep(0.01)
        actions = await self.agent.act(observation, n, seed)
        with self.log.open("a") as file:
            file.write(f"{seed}\n")
        return actions


def acts_in(log: Path) -> int:
    """How many acts a sampler has listed."""
    return len(log.read_text().split()) if log.exists() else 0
