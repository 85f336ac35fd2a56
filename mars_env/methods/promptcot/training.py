"""PromptCoT 2.0 (arXiv 2509.19894): train a problem model p and a rationale model q by turns.

Cold start: both imitate designs that others wrote. E-step: q writes rationales of a known problem and
imitates the one with the largest R = log p(x|z,c) + log p(z|c). M-step: p imitates q's greedy rationales.
"""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from mars_env.errors import ConfigError, ContextError
from mars_env.loggers import Logger
from mars_env.methods.promptcot.designs import (
    ChatWriting,
    Design,
    Writing,
    best_rationale,
    is_readable,
    rationales,
)
from mars_env.models.hf import HFModel
from mars_env.models.requests import require_fit
from mars_env.seeds import derive_seed
from mars_env.sync import gather_all
from mars_env.text import brief
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.local import LocalTrainer
from mars_env.trainers.loop import Texts, fit
from mars_env.trainers.metrics import StepMetrics
from mars_env.trainers.policy import Policy
from mars_env.types import Completion, Sampling

PROBLEM, RATIONALE = "problem", "rationale"  # names of the two policies


class Loop(BaseModel, frozen=True, extra="forbid"):
    """The numbers of the EM loop."""

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


@dataclass(frozen=True, slots=True)
class Designers:
    """The two models, p(z, x | c) and q(z | c, x), and the form of what they write."""

    problem: HFModel
    rationale: HFModel
    writing: Writing = ChatWriting()  # noqa: RUF009 (it has no state)

    def trainer(
        self, config: TrainConfig, designs: Sequence[Design] = (), loop: Loop | None = None
    ) -> LocalTrainer:
        """A trainer of both, for one loop. The paper trains at 2e-5 in the cold start and then at 2e-6."""
        models = {PROBLEM: self.problem, RATIONALE: self.rationale}
        policies = {name: Policy(model.module, model.tokenizer) for name, model in models.items()}
        run = {} if loop is None else _identity(designs, loop)
        return LocalTrainer(policies, config, run={"method": "PromptCoT 2.0", **run})

    def problem_text(self, design: Design) -> Completion:
        """What the problem model is to write; a `ConfigError` if unreadable, a `ContextError` if too long."""
        if not is_readable(self.writing, design):
            advice = "give both, neither with a heading of the other"
            raise ConfigError(f"{brief(design.problem)} and its rationale could not be read back: {advice}")
        prompt = self.writing.from_concepts(design.concepts)
        return _fitting(self.problem, self.problem.written(prompt, *self.writing.parts(design)))

    def rationale_text(self, design: Design) -> Completion:
        """What the rationale model is to write; a `ContextError` if its context is too short."""
        prompt = self.writing.from_problem(design.concepts, design.problem)
        return _fitting(self.rationale, self.rationale.written(prompt, design.rationale))

    def refresh(self, policies: Mapping[str, Policy]) -> None:
        """Tell the models that their weights, which a trainer shares, are new."""
        self.problem.refresh(version=policies[PROBLEM].version)
        self.rationale.refresh(version=policies[RATIONALE].version)


def _fitting(model: HFModel, text: Completion) -> Completion:
    require_fit(text, model.context, model.name)
    return text


def batch_of(number: int, size: int, step: int, seed: int) -> list[int]:
    """Places of a step's batch: whole passes over everything, each in another order.

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

    Gives ``-log p`` of a token under each model, step by step, in nats. A `ConfigError` if there is no
    design, one has no rationale, or one is longer than a model's context.
    """
    if not designs:
        raise ConfigError("a cold start needs designs")
    texts = [(designers.problem_text(design), designers.rationale_text(design)) for design in designs]
    curve = []
    for step in range(trainer.steps, steps):
        chosen = [texts[place] for place in batch_of(len(texts), batch, step, seed)]
        done = trainer.imitate({PROBLEM: [p for p, _ in chosen], RATIONALE: [q for _, q in chosen]})
        curve.append({name: metrics["nll"] for name, metrics in done.policies.items()})
    designers.refresh(trainer.policies)
    return curve


async def e_step(
    designers: Designers, designs: Sequence[Design], loop: Loop, step: int
) -> tuple[Texts, list[list[float]]]:
    """The best of the rationale model's rationales of each problem, for it to imitate, and all R."""

    async def best(place: int, design: Design) -> tuple[Design, list[float]] | None:
        seed = derive_seed(loop.seed, "rationales", step, place)
        sampling = replace(loop.sampling, seed=seed)
        texts = await rationales(designers.rationale, designers.writing, design, loop.candidates, sampling)
        return await best_rationale(designers.problem, designers.writing, texts) if texts else None

    pairs = await gather_all(best(place, design) for place, design in enumerate(designs))
    candidates = [one for one in pairs if one is not None]
    chosen = [designers.rationale_text(design) for design, _ in candidates]
    return Texts({RATIONALE: chosen}), [scores for _, scores in candidates]


async def m_step(designers: Designers, designs: Sequence[Design], loop: Loop) -> Texts:
    """Each problem with the rationale model's greedy rationale, for the problem model to imitate."""
    problems = []
    for design in await explain(designers, designs, loop.sampling):
        with suppress(ContextError):
            problems += [] if design is None else [designers.problem_text(design)]
    return Texts({PROBLEM: problems})


async def explain(designers: Designers, designs: Sequence[Design], sampling: Sampling) -> list[Design | None]:
    """Each design with the rationale model's greedy rationale; None where that cannot be used."""
    greedy = replace(sampling, temperature=0.0, seed=0)
    model, writing = designers.rationale, designers.writing
    replies = await gather_all(rationales(model, writing, design, 1, greedy) for design in designs)
    return [explained[0] if explained else None for explained in replies]


async def em_batches(
    designers: Designers, designs: Sequence[Design], loop: Loop, done: int = 0
) -> AsyncGenerator[Texts]:
    """What each update imitates: E-step and M-step by turns, or M-steps alone; a source for `fit`."""
    updates_per_step = 1 + loop.improve_rationales
    for step in range(done // updates_per_step, loop.steps):
        batch = [designs[place] for place in batch_of(len(designs), loop.batch, step, loop.seed)]
        if loop.improve_rationales:
            texts, scores = await e_step(designers, batch, loop, step)
            every = [joint for row in scores for joint in row]
            metrics = {"unreadable": float(len(batch) * loop.candidates - len(every))}
            if every:
                metrics |= {"best": float(np.mean([*map(max, scores)])), "mean": float(np.mean(every))}
            yield replace(texts, metrics=metrics)
        texts = await m_step(designers, batch, loop)
        yield replace(texts, metrics={"unreadable": float(len(batch) - len(texts.completions[PROBLEM]))})


async def alternate(
    designers: Designers,
    trainer: LocalTrainer,
    designs: Sequence[Design],
    loop: Loop,
    *,
    directory: str | Path | None = None,
    checkpoint_every: int = 10,
    loggers: Sequence[Logger] = (),
) -> list[StepMetrics]:
    """The EM loop: pairs of E-step and M-step on known problems, until `loop.steps` pairs are done.

    The trainer is ``designers.trainer(config, designs, loop)``, new for this loop. The same call continues
    from the newest checkpoint. Loggers get ``unreadable`` (rationales that were cut off, or that the problem
    model could not write), and of an E-step ``best`` (mean of each problem's largest R, in nats) and ``mean``
    (of all R).

    Raises:
        ConfigError: There are no problems, or more pairs than `loop.steps` are done already.
        StoreError: The directory is of a loop with other problems or numbers, or another trainer.
    """
    if not designs:
        raise ConfigError("the loop needs problems")
    if directory is not None and not _identity(designs, loop).items() <= trainer.run.items():
        advice = "designers.trainer(config, designs, loop)"
        raise ConfigError(f"a loop with checkpoints needs its own trainer: {advice}")
    updates_per_step = 1 + loop.improve_rationales
    return await fit(
        trainer,
        lambda done: em_batches(designers, designs, loop, done),
        loop.steps * updates_per_step,
        refresh=designers.refresh,
        directory=directory,
        checkpoint_every=checkpoint_every * updates_per_step,
        loggers=loggers,
    )


def _identity(designs: Sequence[Design], loop: Loop) -> dict[str, Any]:
    problems = json.dumps([[list(design.concepts), design.problem] for design in designs])
    return {**loop.model_dump(mode="json", exclude={"steps"}), "problems": f"{derive_seed(0, problems):x}"}
