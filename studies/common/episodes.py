"""Models and episodes of more than one study."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence

from mars_env.envs import Game
from mars_env.models import HFModel
from mars_env.rollout import Job, collect
from mars_env.types import Agent, Problem, Tree


async def played_often(
    game: Game,
    agents: Mapping[str, Agent],
    problems: Iterable[Problem],
    samples: int,
    seed: int,
    first: int = 0,
) -> list[Tree]:
    """Every problem so many times, all at once; samples are numbered from the first."""
    jobs = [Job(problem, sample) for sample in range(first, first + samples) for problem in problems]
    return await collect(game, agents, jobs, seed=seed, concurrency=len(jobs))


def copied(model: HFModel, name: str | None = None) -> HFModel:
    """The same model with weights of its own."""
    return HFModel((copy.deepcopy(model.module), model.tokenizer), device="cpu", name=name or model.name)


def mean(values: Sequence[float]) -> float:
    """0 of none."""
    return sum(values) / max(1, len(values))
