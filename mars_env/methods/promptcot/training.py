"""PromptCoT 2.0 (arXiv 2509.19894): train a problem model and a rationale model in turns.

    cold start    p and q imitate designs (concepts, rationale, problem) that others wrote
    E-step        q writes rationales of a known problem and imitates the one with the largest
                  R = log p(x|z,c) + log p(z|c)
    M-step        q writes one greedy rationale of each problem; p imitates rationale and problem

The paper calls the E-step reinforcement learning; it is imitation of the best of 8. New problems come from
`mars_env.methods.promptcot.designs.write_design` and `mars_env.methods.promptcot.making.make_problems`.
Training on them is ordinary: `mars_env.trainers.train` by rewards, or a `LocalTrainer` with `Preferences`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from mars_env.errors import ConfigError, ContextError, StoreError
from mars_env.files import write_atomically
from mars_env.methods.promptcot.designs import (
    ChatWriting,
    Design,
    Writing,
    best_rationale,
    rationales,
    readable,
    score_design,
)
from mars_env.models.encoding import require_fit
from mars_env.models.hf import HFModel
from mars_env.seeds import derive_seed
from mars_env.sync import gather_all
from mars_env.text import shown
from mars_env.trainers.checkpoints import require_steps
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.local import LocalTrainer, Policy
from mars_env.types import Completion, Sampling

PROBLEM, RATIONALE = "problem", "rationale"
"""Names of the two policies."""

LOOP: Final = "loop.json"
"""A file beside the checkpoints of a loop: its problems and numbers. Another loop is refused there."""


class Loop(BaseModel):
    """The numbers of the EM loop.

    Example:
        >>> Loop().candidates
        8
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: int = Field(default=100, ge=1)
    """E- and M-steps, in pairs. The paper alternates "to convergence"."""
    batch: int = Field(default=16, ge=1)
    """Problems of a step. Paper: 16."""
    candidates: int = Field(default=8, ge=1)
    """Rationales for each problem in the E-step. Paper: 8."""
    sampling: Sampling = Sampling(temperature=1.0, max_tokens=4096)
    """Of the rationales. Paper: temperature 1."""
    improve_rationales: bool = True
    """Whether there is an E-step. Without it the rationale model stays as it is (the paper's ablation)."""
    seed: int = 0
    """Of batches and rationales."""


@dataclass(frozen=True, slots=True)
class Designers:
    """The two models, and the form of their texts.

    Attributes:
        problem: p(z, x | c), which writes rationale and problem after the concepts.
        rationale: q(z | c, x), which explains a problem.
        writing: Their prompts.
    """

    problem: HFModel
    rationale: HFModel
    writing: Writing = ChatWriting()  # noqa: RUF009 (it has no state)

    def trainer(self, config: TrainConfig) -> LocalTrainer:
        """A trainer of both. The paper trains at 2e-5 in the cold start and at 2e-6 in the loop."""
        models = {PROBLEM: self.problem, RATIONALE: self.rationale}
        policies = {name: Policy(model.module, model.tokenizer) for name, model in models.items()}
        return LocalTrainer(policies, config, run={"method": "PromptCoT 2.0"})

    def problem_text(self, design: Design) -> Completion:
        """What the problem model is to write.

        Raises:
            ConfigError: The design would be read otherwise than it is.
            ContextError: It is longer than the model's context.
        """
        if not readable(self.writing, design):
            raise ConfigError(
                f"the problem {shown(design.problem)} with its rationale would be read otherwise than it is: "
                "each must be there, without a heading of the other"
            )
        prompt = self.writing.from_concepts(design.concepts)
        return _fitting(self.problem, self.problem.written(prompt, *self.writing.parts(design)))

    def rationale_text(self, design: Design) -> Completion:
        """What the rationale model is to write.

        Raises:
            ContextError: It is longer than the model's context.
        """
        prompt = self.writing.from_problem(design.concepts, design.problem)
        return _fitting(self.rationale, self.rationale.written(prompt, design.rationale))

    def refresh(self, trainer: LocalTrainer) -> None:
        """Tell the models that their weights, which the trainer shares, are new."""
        self.problem.refresh(version=trainer.policies[PROBLEM].version)
        self.rationale.refresh(version=trainer.policies[RATIONALE].version)


def _fitting(model: HFModel, text: Completion) -> Completion:
    require_fit(text, model.context, model.name)
    return text


@dataclass(frozen=True, slots=True)
class LoopFigures:
    """What one pair of steps did.

    Attributes:
        step: Its number, from 1.
        best: Mean of the largest R of each problem, in nats; None without an E-step.
        mean: Mean of all R.
        unreadable: Rationales that were cut off, or that the problem model could not write: for their
            headings, or their length.
        surprise: ``-log p(z, x | c)`` of a token in the M-step, in nats, before the update.
    """

    step: int
    best: float | None
    mean: float | None
    unreadable: int
    surprise: float | None


def batch_of(number: int, size: int, step: int, seed: int) -> list[int]:
    """Places of a step's batch: whole passes over everything, each in an order of its own.

    Example:
        >>> sorted(batch_of(4, 2, 0, seed=0) + batch_of(4, 2, 1, seed=0))
        [0, 1, 2, 3]
    """
    places: list[int] = []
    start = step * size
    while len(places) < size:
        done, within = divmod(start + len(places), number)
        order = np.random.default_rng(derive_seed(seed, "pass", done)).permutation(number)
        places += order[within : within + size - len(places)].tolist()
    return places


def cold_start(
    designers: Designers,
    trainer: LocalTrainer,
    designs: Sequence[Design],
    *,
    steps: int,
    batch: int = 16,
    seed: int = 0,
) -> list[dict[str, float]]:
    """Both models imitate given designs, until the trainer has done `steps` steps.

    Returns:
        The surprise of a token under each model, step by step, in nats.

    Raises:
        ConfigError: There is no design, one has no rationale, or one is longer than a model's context.
    """
    if not designs:
        raise ConfigError("a cold start needs designs")
    texts = [(designers.problem_text(design), designers.rationale_text(design)) for design in designs]
    curve = []
    for step in range(trainer.steps, steps):
        chosen = [texts[place] for place in batch_of(len(texts), batch, step, seed)]
        done = trainer.imitate({PROBLEM: [p for p, _ in chosen], RATIONALE: [q for _, q in chosen]})
        curve.append({name: figures["surprise"] for name, figures in done.policies.items()})
    designers.refresh(trainer)
    return curve


async def e_step(
    designers: Designers, trainer: LocalTrainer, designs: Sequence[Design], loop: Loop, step: int
) -> tuple[list[list[float]], int]:
    """The rationale model imitates the best of its own rationales.

    Returns:
        R of the candidates of each problem that has any, and how many rationales could not be used.

    Raises:
        ModelError: A model failed. Nothing was trained.
    """

    async def best(place: int, design: Design) -> tuple[Design, list[float]] | None:
        seed = derive_seed(loop.seed, "rationales", step, place)
        sampling = replace(loop.sampling, seed=seed)
        found = await rationales(designers.rationale, designers.writing, design, loop.candidates, sampling)
        return await best_rationale(designers.problem, designers.writing, found) if found else None

    each = await gather_all(best(place, design) for place, design in enumerate(designs))
    found = [one for one in each if one is not None]
    if found:
        trainer.imitate({RATIONALE: [designers.rationale_text(design) for design, _ in found]})
        designers.refresh(trainer)
    scores = [joint for _, joint in found]
    return scores, len(designs) * loop.candidates - sum(map(len, scores))


async def m_step(
    designers: Designers, trainer: LocalTrainer, designs: Sequence[Design], loop: Loop
) -> tuple[float | None, int]:
    """The problem model imitates each problem with the rationale model's greedy rationale.

    Returns:
        The surprise of a token before the update, and how many rationales could not be used.

    Raises:
        ModelError: A model failed. Nothing was trained.
    """
    found = []
    for design in await explain(designers, designs, loop.sampling):
        with suppress(ContextError):
            found += [] if design is None else [designers.problem_text(design)]
    if not found:
        return None, len(designs)
    done = trainer.imitate({PROBLEM: found})
    designers.refresh(trainer)
    return done.policies[PROBLEM]["surprise"], len(designs) - len(found)


async def explain(designers: Designers, designs: Sequence[Design], sampling: Sampling) -> list[Design | None]:
    """Each design with the rationale model's greedy rationale; None where that cannot be used."""
    greedy = replace(sampling, temperature=0.0, seed=0)
    each = await gather_all(
        rationales(designers.rationale, designers.writing, design, 1, greedy) for design in designs
    )
    return [found[0] if found else None for found in each]


async def alternate(
    designers: Designers,
    trainer: LocalTrainer,
    designs: Sequence[Design],
    loop: Loop,
    *,
    directory: str | Path | None = None,
    checkpoint_every: int = 10,
) -> list[LoopFigures]:
    """The EM loop: pairs of E-step and M-step on known problems, until `loop.steps` pairs are done.

    Args:
        designers: The models, after a cold start.
        trainer: Of their weights, new for this loop: its steps are counted.
        designs: Concepts and problems; their rationales are not read.
        loop: The numbers.
        directory: For checkpoints of both models, after whole pairs; the same call continues from the newest.
        checkpoint_every: Pairs between two checkpoints; the last pair always gets one.

    Returns:
        The figures of the pairs that this call did.

    Raises:
        ConfigError: There are no problems, or more pairs than `loop.steps` are done already.
        StoreError: The directory is of a loop with other problems or numbers, or another trainer.
    """
    if not designs:
        raise ConfigError("the loop needs problems")
    if directory is not None:
        _require_same(Path(directory) / LOOP, designs, loop)
        if trainer.resume(directory):
            designers.refresh(trainer)
    figures = []
    require_steps(_pairs_done(trainer, loop), loop.steps, directory)
    for step in range(_pairs_done(trainer, loop), loop.steps):
        batch = [designs[place] for place in batch_of(len(designs), loop.batch, step, loop.seed)]
        scores: list[list[float]] = []
        lost = 0
        if loop.improve_rationales:
            scores, lost = await e_step(designers, trainer, batch, loop, step)
        surprise, missing = await m_step(designers, trainer, batch, loop)
        trainer.steps = (step + 1) * (1 + loop.improve_rationales)  # also where nothing could be used
        every = [joint for row in scores for joint in row]
        figures.append(
            LoopFigures(
                step + 1,
                float(np.mean([max(row) for row in scores])) if scores else None,
                float(np.mean(every)) if every else None,
                lost + missing,
                surprise,
            )
        )
        if directory is not None and (step + 1 == loop.steps or (step + 1) % checkpoint_every == 0):
            trainer.save(directory)
    return figures


def _require_same(path: Path, designs: Sequence[Design], loop: Loop) -> None:
    """Write what a loop depends on into its directory, or refuse the directory of another loop."""
    problems = [[list(design.concepts), design.problem] for design in designs]
    depends = {
        **loop.model_dump(mode="json", exclude={"steps"}),
        "problems": f"{derive_seed(0, json.dumps(problems)):x}",
    }
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(depends, indent=1) + "\n")
        return
    try:
        stored = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    if differing := sorted(
        key for key in depends.keys() | stored.keys() if depends.get(key) != stored.get(key)
    ):
        raise StoreError(
            f"{path.parent} is of a loop with other settings ({', '.join(differing)}): give the same ones, "
            "or another directory"
        )


def _pairs_done(trainer: LocalTrainer, loop: Loop) -> int:
    return trainer.steps // (1 + loop.improve_rationales)


async def problem_surprise(designers: Designers, designs: Sequence[Design]) -> tuple[float, float]:
    """Mean ``-log p(x|z,c)`` and ``-log p(x|z,c) - log p(z|c)`` of a problem, in nats, by the problem model.

    The first is what the paper's curves show; a rationale that gives the whole problem away makes it 0. The
    second cannot be lowered in this way: for every z it is at least ``-log p(x|c)``.
    """
    scores = await gather_all(
        score_design(designers.problem, designers.writing, design) for design in designs
    )
    number = len(scores)
    return -sum(s.problem for s in scores) / number, -sum(s.joint for s in scores) / number
