"""What more than one study does with models and episodes."""

from __future__ import annotations

import copy
import fcntl
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from transformers import Qwen3ForCausalLM

from mars_env.envs import Game
from mars_env.evaluation.metrics import estimates, measure
from mars_env.evaluation.statistics import Estimate
from mars_env.models import HFModel
from mars_env.problems import ProblemSet
from mars_env.rollout import Job, collect
from mars_env.trainers.loop import train
from mars_env.trainers.metrics import StepMetrics
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.team import SampledModel, make_team
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


def mean_reward(trees: Sequence[Tree]) -> float:
    """Of their first turns."""
    return mean([tree.turns[0].reward or 0.0 for tree in trees])


async def learned(
    model: HFModel,
    game: Game,
    problems: ProblemSet,
    settings: RunSettings,
    agent: Callable[[str, SampledModel], Agent],
) -> list[StepMetrics]:
    """Train a model that all agents of a game share; the metrics of every step."""
    team = make_team(settings, game.rules.possible_agents, [model], agent=agent)
    return await train(game, team, problems, settings)


def copied(model: HFModel, name: str | None = None) -> HFModel:
    """The same model with weights of its own."""
    return HFModel((copy.deepcopy(model.module), model.tokenizer), device="cpu", name=name or model.name)


def made_once(place: Path, make: Callable[[Path], None]) -> Path:
    """A folder; made first if it is not there yet, while other processes that want it wait."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            draft = Path(tempfile.mkdtemp(dir=place.parent))
            make(draft)
            draft.rename(place)
    return place


def warm_started(place: Path, name: str, make: Callable[[], tuple[Any, Any]]) -> HFModel:
    """A warm start from its folder: the module and the tokenizer that `make` returns."""

    def save(folder: Path) -> None:
        for part in make():
            part.save_pretrained(folder)

    return HFModel(made_once(place, save), device="cpu", name=name)


def rewards_of(history: Iterable[StepMetrics], roles: Iterable[str]) -> dict[str, list[float | None]]:
    """The mean reward of each role in every step of a training; None where it did not act."""
    steps = [step.roles for step in history]
    return {role: [step.get(role, {}).get("reward") for step in steps] for role in roles}


def mean(values: Sequence[float]) -> float:
    """0 of none."""
    return sum(values) / max(1, len(values))


Row = tuple[Sequence[int], Sequence[int]]
"""The token ids of a prompt, and of what is written after it."""


def written_losses(model: Qwen3ForCausalLM, rows: Sequence[Row]) -> torch.Tensor:
    """The loss of each written token, row after row; rows are padded on the right, so no mask is needed."""
    ids = [torch.tensor([*prompt, *written]) for prompt, written in rows]
    tokens = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
    places = torch.arange(tokens.shape[1])
    starts = torch.tensor([len(prompt) for prompt, _ in rows])[:, None]
    ends = torch.tensor([len(row) for row in ids])[:, None]
    written = ((places >= starts) & (places < ends))[:, 1:]
    logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
    return F.cross_entropy(logits[written], tokens[:, 1:][written], reduction="none")


def metrics_of(trees: Sequence[Tree]) -> dict[str, Estimate]:
    """All metrics of some trees with their intervals, by name."""
    return estimates(measure(trees), [tree.problem.id for tree in trees])


def updates(
    module: torch.nn.Module, steps: int, peak: float, *, warmup: float = 100, clip: float = 1.0, **adamw: Any
) -> Iterator[int]:
    """AdamW updates of a warm start: the body of the loop computes the gradients of one update.

    Args:
        module: What is trained, in place.
        steps: Updates.
        peak: The highest learning rate, after `warmup` updates; then it falls linearly to a twentieth.
        warmup: Updates until the peak.
        clip: Greatest norm of the gradients.
        adamw: Further settings of `torch.optim.AdamW`; betas are 0.9 and 0.98.

    Yields:
        The number of the update, from 0.
    """
    optimiser = torch.optim.AdamW(module.parameters(), lr=peak, betas=(0.9, 0.98), **adamw)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = peak * min(1.0, (step + 1) / warmup) * (1 - 0.95 * step / steps)
        optimiser.zero_grad()
        yield step
        torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimiser.step()
