"""PromptCoT 2.0 in miniature: E-steps, training on made problems, and how wrong voted references are."""

from __future__ import annotations

import asyncio
import copy
import math
import random
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

from mars_env.envs import Game, GroupedSettings, solve
from mars_env.envs.rewards import outcome
from mars_env.evaluation.problems import drop_solved
from mars_env.grading import grader_for
from mars_env.methods.promptcot.designs import Design, score_design, write_design
from mars_env.methods.promptcot.making import CandidateSettings, make_problems
from mars_env.methods.promptcot.references import Majority
from mars_env.methods.promptcot.training import (
    PROBLEM,
    RATIONALE,
    Designers,
    Loop,
    alternate,
    batch_of,
    cold_start,
    explain,
)
from mars_env.models import HFModel
from mars_env.problems import ProblemSet
from mars_env.seeds import derive_seed
from mars_env.trainers import LocalTrainer, RunSettings, TrainConfig, fit, make_team
from mars_env.trainers.config import Preferences
from mars_env.trainers.rollouts import rollouts
from mars_env.types import Tree
from studies.common.claims import Claim
from studies.common.episodes import copied, learned, mean, mean_reward, played_often
from studies.common.ledger import Frozen, LedgerRow, arm_estimate, seed_text
from studies.common.study import Result, Run, Study, recorded_config
from studies.promptcot.grammar import (
    DESIGNS,
    LONGEST,
    MODULUS,
    OPERATIONS,
    RATIONALES,
    SOLUTIONS,
    GrammarWriting,
    as_problem,
    bare,
    designs,
    draw,
    follows,
    full_rationale,
    new_model,
    solver,
    taught_solver,
    values,
)

CURVES: Final = (
    "initial, without rationale",
    "initial, with rationale",
    "rationales fixed",
    "with E-step",
    "without rationale, trained as long",
)
PLAY: Final = (
    "solver at the start",
    "old problems, by reward",
    "made problems, by reward",
    "old problems, by DPO",
    "made problems, by DPO",
    "made problems, true references",
)
REFERENCES: Final = "references by vote"
CLAIMS: Final = (
    Claim("E-steps make new problems likelier than fixed rationales", "with E-step", "likely", CURVES[2]),
    Claim("... than the cold start", "with E-step", "likely", CURVES[1]),
    Claim("... than as much training without rationales", "with E-step", "likely", CURVES[4]),
    Claim("after E-steps more problems have the concepts asked for", "with E-step", "follows", CURVES[2]),
    Claim("made problems, by reward, improve the solver", PLAY[2], "solved", PLAY[0]),
    Claim("... more than as many old ones", PLAY[2], "solved", PLAY[1]),
    Claim("made problems, by DPO, improve the solver", PLAY[4], "solved", PLAY[0]),
    Claim("... more than as many old ones", PLAY[4], "solved", PLAY[3]),
    Claim("true references are better than voted ones", PLAY[5], "solved", PLAY[2]),
    Claim("references are wrong more often at 4 to 6 votes than at 7 or 8", REFERENCES, "wrong_below",
          REFERENCES, "wrong_above"),
)  # fmt: skip


class Recipe(Frozen):
    """Every number of the study; the plan says how they were chosen."""

    pool: int = 1000
    """Known problems with their cold-start rationales."""
    cold_steps: int = 200
    cold_batch: int = 24
    cold_rate: float = 4e-3
    pairs: int = 20
    """Pairs of E- and M-steps."""
    loop_batch: int = 12
    loop_rate: float = 1e-3
    held_out: int = 40
    particles: int = 4
    """Rationales for each problem in the estimate of its likelihood."""
    solver_steps: int = 210
    teacher_steps: int = 245
    tries: int = 120
    """Problems that are asked for."""
    chosen: int = 48
    """Problems to train on, of either kind; each is used once."""
    play_steps: int = 8
    play_problems: int = 6
    play_rate: float = 2e-3
    tested: int = 90
    tested_samples: int = 2


RECIPE: Final = Recipe()
QUICK: Final = Recipe(
    pool=60, cold_steps=3, pairs=1, loop_batch=4, held_out=4, particles=2, solver_steps=3, teacher_steps=4,
    tries=8, chosen=4, play_steps=1, play_problems=2, tested=4,
)  # fmt: skip


def rates(rate: float) -> TrainConfig:
    """Of all trainings."""
    return recorded_config(learning_rate=rate, warmup_updates=10)


def new_designers(seed: int) -> Designers:
    """Two new models."""
    models = (new_model(name, derive_seed(seed, name) % 2**31) for name in (PROBLEM, RATIONALE))
    return Designers(*models, GrammarWriting())


async def likelihood(both: Designers, held: Sequence[Design], particles: int, seed: int) -> float:
    """The probability of a character of a held-out problem given its concepts: a geometric mean.

    ``p(x|c)`` is estimated by importance sampling, ``mean_k p(z_k, x|c) / q(z_k|c, x)`` with rationales z_k
    of the rationale model. Where the estimate is below p(_, x|c), which is a part of p(x|c), that is taken.
    """

    async def one(place: int, design: Design) -> float:
        sampling = replace(RATIONALES, seed=derive_seed(seed, "particles", place))
        prompt = both.writing.from_problem(design.concepts, design.problem)
        weights = []
        for completion in await both.rationale.complete(prompt, particles, sampling):
            made = replace(design, rationale=completion.text)
            if not completion.cut and both.writing.read("".join(both.writing.parts(made))) is not None:
                joint = (await score_design(both.problem, both.writing, made)).joint
                weights.append(joint - sum(completion.logprobs))
        plain = (await score_design(both.problem, both.writing, bare(design))).joint
        top = max([*weights, plain])
        sampled = math.fsum(math.exp(w - top) for w in weights) / particles
        return top + math.log(max(sampled, math.exp(plain - top)))  # p(x|c) is at least p(_, x|c)

    each = await asyncio.gather(*(one(place, design) for place, design in enumerate(held)))
    return per_character(each, held)


def per_character(logprobs: Iterable[float], of: Sequence[Design]) -> float:
    """The geometric mean over the characters of problems, and their ends."""
    return math.exp(math.fsum(logprobs) / sum(len(design.problem) + 1 for design in of))


async def likelihood_given(both: Designers, held: Sequence[Design]) -> float:
    """The probability of a character of a problem given its concepts and its rationale: exact."""
    scores = await asyncio.gather(*(score_design(both.problem, both.writing, design) for design in held))
    return per_character([score.problem for score in scores], held)


async def written(both: Designers, held: Sequence[Design], seed: int) -> dict[str, float]:
    """What the problem model writes for the concepts of the held-out problems."""

    async def one(place: int, design: Design) -> Design | None:
        sampling = replace(DESIGNS, seed=derive_seed(seed, "written", place))
        return await write_design(both.problem, both.writing, design.concepts, sampling)

    found = await asyncio.gather(*(one(place, design) for place, design in enumerate(held)))
    readable = [design for design in found if design is not None]
    return {"readable": len(readable) / len(held), "follows": sum(map(follows, readable)) / len(held)}


async def given_rationale(both: Designers, held: Sequence[Design]) -> dict[str, float]:
    """The paper's figure, ``p(x|z,c)`` of a character with the greedy rationale, and how many are full."""
    explained = [d for d in await explain(both, held, RATIONALES) if d is not None]
    if not explained:
        return {"given": 0.0, "full": 0.0}
    full = sum(d.rationale == full_rationale(d.problem) for d in explained)
    return {"given": await likelihood_given(both, explained), "full": full / len(held)}


async def curves(seed: int, recipe: Recipe) -> tuple[dict[str, Result], Designers]:
    """The arms of the first part, and the models after E-steps."""
    pool = designs(seed, recipe.pool)
    known = {design.problem for design in pool}
    fresh = [d for d in designs(derive_seed(seed, "held out"), 4 * recipe.held_out) if d.problem not in known]
    held = fresh[: recipe.held_out]

    async def measured(both: Designers) -> dict[str, float]:
        found = {"likely": await likelihood(both, held, recipe.particles, seed)}
        return found | await given_rationale(both, held) | await written(both, held, seed)

    async def measured_plain(both: Designers) -> dict[str, float]:
        likely = await likelihood_given(both, [bare(design) for design in held])
        return {"likely": likely, "given": likely} | await written(both, held, seed)

    start = new_designers(seed)
    cold_start(
        start, start.trainer(rates(recipe.cold_rate)), pool,
        steps=recipe.cold_steps, batch=recipe.cold_batch, seed=seed,
    )  # fmt: skip
    arms = {CURVES[1]: Result(await measured(start))}
    for arm, improve in ((CURVES[2], False), (CURVES[3], True)):
        both = Designers(copied(start.problem), copied(start.rationale), start.writing)
        trainer, curve = both.trainer(rates(recipe.loop_rate)), []
        for part in (1, 2, 3):
            loop = Loop(
                steps=max(1, recipe.pairs * part // 3),
                batch=recipe.loop_batch,
                sampling=RATIONALES,
                improve_rationales=improve,
                seed=seed,
            )
            await alternate(both, trainer, pool, loop)
            curve.append(await measured(both))
        arms[arm] = Result(curve[-1], {"likely": [round(c["likely"], 4) for c in curve]})
    plain, texts = new_designers(seed), [bare(design) for design in pool]
    policies = {PROBLEM: plain.trainer(rates(0.0)).policies[PROBLEM]}
    for arm, steps, batch, rate in (
        (CURVES[0], recipe.cold_steps, recipe.cold_batch, recipe.cold_rate),
        (CURVES[4], recipe.pairs, recipe.loop_batch, recipe.loop_rate),
    ):
        trainer = LocalTrainer(policies, rates(rate))
        for step in range(steps):
            places = batch_of(len(texts), batch, step, seed)
            trainer.imitate({PROBLEM: [plain.problem_text(texts[place]) for place in places]})
        plain.problem.refresh()
        arms[arm] = Result(await measured_plain(plain))
    return arms, both


taught = cache(taught_solver)
"""The solver, and the teacher that votes; the same for all seeds."""


def game() -> Game:
    """A right answer is the reward."""
    return Game(solve(), grader_for("math"), rewards={"solver": outcome})


async def solved(model: HFModel, problems: ProblemSet, samples: int, seed: int) -> list[Tree]:
    """Every problem so many times."""
    return await played_often(game(), {"solver_0": solver(model)}, problems, samples, seed)


async def made_set(both: Designers, recipe: Recipe, seed: int, tested: ProblemSet) -> ProblemSet:
    """Problems of five operations, the hardest kind, with references by vote."""

    async def write(index: int, own: int) -> Design | None:
        rng = random.Random(own)
        signs = sorted((rng.choice(OPERATIONS) for _ in range(LONGEST)), key=OPERATIONS.index)
        concepts = (*signs, f"={rng.randrange(MODULUS)}")
        return await write_design(both.problem, both.writing, concepts, replace(DESIGNS, seed=own))

    voter = solver(taught(steps=recipe.teacher_steps))
    with tempfile.TemporaryDirectory() as folder:
        return await make_problems(
            folder, write, Majority(voter),
            CandidateSettings(tries=recipe.tries, concurrency=recipe.tries, seed=seed),
            protected=[problem.statement for problem in tested],
        )  # fmt: skip


async def trained(
    problems: ProblemSet, recipe: Recipe, seed: int, preferences: Preferences | None
) -> HFModel:
    """The solver after training on some problems."""
    model = copied(taught(steps=recipe.solver_steps))
    settings = RunSettings(
        seed=seed,
        steps=recipe.play_steps,
        problems_per_step=min(recipe.play_problems, len(problems)),
        rollouts=GroupedSettings(group=8, branches=1),
        sampling=SOLUTIONS,
        train=rates(recipe.play_rate),
    )
    if preferences is None:
        await learned(model, game(), problems, settings, lambda _, own: solver(own))
        return model
    team = make_team(settings, ["solver_0"], [model], agent=lambda _, own: solver(own))
    for policy in team.policies.values():
        policy.reference = copy.deepcopy(policy.model).requires_grad_(False)
    trainer = LocalTrainer(team.policies, settings.train, preferences=preferences)
    await fit(
        trainer,
        lambda done: rollouts(game(), team, problems, settings, done=done),
        settings.steps,
        refresh=team.refresh,
    )
    return model


def votes_of(made: ProblemSet) -> list[tuple[int, bool, bool]]:
    """For each made problem: votes for the leading answer, whether it is right and settled."""
    found = []
    for problem in made:
        reference = problem.metadata["provenance"]["reference"]
        truth = str((values(problem.statement) or [0])[-1])
        if reference["votes"]:
            leading = max(reference["votes"], key=reference["votes"].get)
            votes = reference["votes"][leading]
            found.append((votes, leading == truth, problem.reference is not None))
    return found


def wrong(votes: Sequence[tuple[int, bool, bool]], low: int, high: int) -> float | None:
    """Share of wrong references among those settled with so many votes."""
    right = [is_right for count, is_right, settled in votes if settled and low <= count <= high]
    return 1 - sum(right) / len(right) if right else None


async def trainings(seed: int, recipe: Recipe, both: Designers) -> dict[str, Result]:
    """The arms of the second part."""
    rng = random.Random(derive_seed(seed, "tested"))
    texts = dict.fromkeys(draw(rng, LONGEST - i % 3) for i in range(recipe.tested))
    tested = ProblemSet("tested", [as_problem(text, f"tested/{i}") for i, text in enumerate(texts)])
    pool = designs(seed, recipe.pool)
    old = ProblemSet(
        "old", [as_problem(d.problem, f"old/{i}") for i, d in enumerate(pool) if d.problem not in texts]
    )
    made = await made_set(both, recipe, seed, tested)
    votes = votes_of(made)
    known = made.filter(lambda problem: problem.reference is not None)
    start = taught(steps=recipe.solver_steps)
    hard = drop_solved(known, await solved(start, known, 8, seed)) if len(known) else known
    number = min(recipe.chosen, len(hard))
    chosen = hard[:number] if number else known[: recipe.chosen]
    true = ProblemSet("true", [as_problem(p.statement, p.id) for p in chosen])
    few = old[: len(chosen) or recipe.chosen]
    pairs = list(zip(chosen, true, strict=True))
    wrong_chosen = sum(a.reference != b.reference for a, b in pairs) / len(pairs) if pairs else None
    figures = {
        "wrong": wrong(votes, 0, 8),
        "wrong_above": wrong(votes, 7, 8),
        "wrong_below": wrong(votes, 4, 6),
        "wrong_chosen": wrong_chosen,
    }
    detail = {
        "notes": made.notes, "settled": len(known), "hard": len(hard), "chosen": len(chosen),
        "votes": [[count, sum(c == count for c, _, _ in votes), sum(c == count and r for c, r, _ in votes)]
                  for count in range(1, 9)],
    }  # fmt: skip
    arms: dict[str, Result] = {}
    for arm, problems, preferences in (
        (PLAY[0], None, None), (PLAY[1], few, None), (PLAY[2], chosen, None),
        (PLAY[3], few, Preferences()), (PLAY[4], chosen, Preferences()), (PLAY[5], true, None),
    ):  # fmt: skip
        if problems is not None and not len(problems):
            continue  # nothing usable was made, and the tables show that the arm lacks this seed
        model = start if problems is None else await trained(problems, recipe, seed, preferences)
        trees = await solved(model, tested, recipe.tested_samples, seed)
        longest = [tree for tree in trees if tree.problem.metadata["level"] == LONGEST]
        arms[arm] = Result({"solved": mean_reward(trees), "longest": mean_reward(longest)})
    arms[REFERENCES] = Result(figures, detail)
    return arms


async def play(_: Sequence[str], run: Run) -> Mapping[str, Result]:
    """All arms of a seed; they share the cold start, the made problems and the first solver."""
    first, both = await curves(run.seed, run.recipe)
    return {arm: first[arm] for arm in CURVES} | await trainings(run.seed, run.recipe, both)


def shown(rows: Sequence[LedgerRow]) -> dict[str, Any]:
    """What the page shows of the rows beside the figures of the arms."""
    steps = {arm: [row.detail["likely"] for row in rows if row.arm == arm] for arm in CURVES[2:4]}
    made = [row for row in rows if row.arm == REFERENCES]
    by_count = zip(*(row.detail["votes"] for row in made), strict=True)
    return {
        "curves": CURVES,
        "play": PLAY,
        "steps": {arm: [100 * mean(part) for part in zip(*each, strict=True)] for arm, each in steps.items()},
        "votes": [[sum(number) for number in zip(*each, strict=True)] for each in by_count],
        "wrong": {
            name: seed_text(arm_estimate(rows, REFERENCES, name)) for name in ("wrong", "wrong_chosen")
        },
        "made": [row.detail for row in made],
    }


STUDY = Study(
    name="promptcot",
    version="a413284aa27d",
    task="PromptCoT 2.0",
    starts="1 solver; 1 pair of designers for each seed",
    arms=(*CURVES, *PLAY, REFERENCES),
    recipe=RECIPE,
    quick=QUICK,
    play=play,
    shown=shown,
    claims=CLAIMS,
    together=True,
)
