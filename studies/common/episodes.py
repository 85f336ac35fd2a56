"""What more than one study does with models and episodes."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from transformers import Qwen3ForCausalLM

from mars_env.envs import Game
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


def warm_started(place: Path, name: str, make: Callable[[], tuple[Any, Any]]) -> HFModel:
    """A warm start from its folder; made first if it is not there yet."""
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=place.parent))
        for part in make():
            part.save_pretrained(draft)
        with suppress(OSError):  # another process has made the same meanwhile
            draft.rename(place)
    return HFModel(place, device="cpu", name=name)


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
