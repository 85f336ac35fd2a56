"""MarsRL in miniature through OpenRLHF and with the local trainer, at equal problems and updates.

make prove-openrlhf                                # runs what the ledger lacks (hours on two cores)
python -m studies.openrlhf --seeds 5 --arm local --arm synchronous   # needs OpenRLHF
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from mars_env.errors import ConfigError
from mars_env.loggers import JsonlLogger, Logger, read_jsonl
from mars_env.miniature import load
from mars_env.miniature.experiment import TrainedMiniature, evaluate_team
from mars_env.miniature.recipe import QUICK, RECIPE, Recipe
from mars_env.rollout.pipeline import PipelineSettings, UpdateBatch
from mars_env.rollout.staleness import age
from mars_env.trainers.local import LocalTrainer
from mars_env.trainers.loop import fit
from mars_env.trainers.policy import Policy
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.rollouts import rollouts
from mars_env.viewer.plots import training_curves
from studies.common.claims import Claim
from studies.common.episodes import metrics_of, rewards_of
from studies.common.ledger import LedgerRow
from studies.common.pages import ANSWERS, REPAIRS, SOLVER, SYSTEM, reward_curve
from studies.common.study import Result, Run, Study, arm_by_arm
from studies.marsrl.experiment import Arm, set_up, train_arm
from studies.marsrl.study import ARM, ROLES

COLUMNS = ANSWERS | REPAIRS
HEADS = 32
"""Width of attention heads that vLLM's kernels for CPUs know."""
MICRO = 48
GROUPS_OF_A_PROBLEM = 7.7
"""On average in earlier runs."""
AGENTS = "mars_env.trainers.miniature.agents:team"
"""Where the team was when the rows were made; their settings' hash holds it."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to train: settings of OpenRLHF's run file by path, or None for the local trainer.

    `stale` is how the local loss differs with groups as old as OpenRLHF's asynchronous ways have; with `late`
    all are one update old. `past` ways have a loss that the library no longer has, and rows of their commit.
    """

    title: str
    settings: Mapping[str, Any] | None = field(default_factory=dict)
    float32: bool = False
    stale: Mapping[str, Any] | None = None
    late: bool = False
    past: bool = False

    @property
    def repeats(self) -> bool:
        """Whether a row repeats to the digit: rollouts on vLLM, or beside the updates, depend on timing."""
        return self.settings is None and not self.past and (self.stale is None or self.late)


STALE: Final[Mapping[str, Any]] = {"pipeline.staleness": 1}
PARTIAL: Final[Mapping[str, Any]] = {**STALE, "openrlhf.train.partial_rollout_enable": True}
WEIGHTS: Final[Mapping[str, Any]] = {"tis_cap": 5.0, "tis_veto": None}
LOCAL = "local"
WAYS: Final[Mapping[str, Way]] = {
    LOCAL: Way("the local trainer", None),
    "synchronous": Way("OpenRLHF, synchronous, bfloat16"),
    "asynchronous": Way("OpenRLHF, asynchronous, bfloat16", STALE),
    "partial rollouts": Way("OpenRLHF, asynchronous with partial rollouts, bfloat16", PARTIAL),
    "synchronous, float32": Way("OpenRLHF, synchronous, float32", {}, float32=True),
    "partial rollouts, float32": Way("OpenRLHF, asynchronous with partial rollouts, float32", PARTIAL,
        float32=True),
    "local, asynchronous": Way(
        "the local trainer, asynchronous, ratio to the policy that sampled (added to find a cause)",
        None, stale={}, past=True),
    "local, asynchronous, weights": Way(
        "the local trainer, asynchronous, importance weights up to 5 (added to find a cause)",
        None, stale=WEIGHTS),
    "asynchronous, 38 at once": Way(
        "OpenRLHF, asynchronous, bfloat16, 38 groups under way at most (exploratory: added for a cause)",
        {**STALE, "pipeline.concurrency": 38}),
    "partial rollouts, 38 at once": Way(
        "OpenRLHF, partial rollouts, bfloat16, 38 groups under way at most (exploratory: added for a cause)",
        {**PARTIAL, "pipeline.concurrency": 38}),
    "local, one update late": Way(
        "the local trainer, all groups one version old, ratio to the policy that sampled (added for a cause)",
        None, stale={}, late=True, past=True),
    "local, one update late, weights": Way(
        "the local trainer, all groups one version old, importance weights up to 5 (added for a cause)",
        None, stale=WEIGHTS, late=True),
    "asynchronous, capped above": Way(
        "OpenRLHF, asynchronous, bfloat16, weights up to 5 with no lower bound (added for a cause)",
        STALE, past=True),
    "partial rollouts, capped above": Way(
        "OpenRLHF, partial rollouts, bfloat16, weights up to 5 with no lower bound (added for a cause)",
        PARTIAL, past=True),
}  # fmt: skip
LATER: Final = (LOCAL, *(name for name, way in WAYS.items() if way.late))
"""Have the seeds 8 to 10, too."""
NOT_RUN: Final = "partial rollouts, 38 at once"
PLOTTED: Final = tuple(WAYS)[:6]
"""The plan's first arms; those that were added to find a cause are in the tables alone."""
CLAIMS = (
    tuple(
        Claim(f"{name} above {LOCAL}: {ANSWERS[figure]}", name, figure, LOCAL)
        for figure in (SYSTEM, SOLVER)
        for name in WAYS
        if name != LOCAL
    )
    + tuple(
        Claim(f"{name} above local, asynchronous: System", name, SYSTEM, "local, asynchronous")
        for name in ("asynchronous", "partial rollouts", "local, asynchronous, weights")
    )
    + tuple(
        Claim(f"{name}, {changed} above {name}: System", f"{name}, {changed}", SYSTEM, name)
        for changed in ("38 at once", "capped above")
        for name in ("asynchronous", "partial rollouts")
    )
)
PLANNED_CLAIMS = tuple(
    claim for claim in CLAIMS if claim.arm in PLOTTED and claim.other_arm == LOCAL and claim.figure == SYSTEM
)
"""The System of the plan's first arms; all other comparisons were added to find a cause."""


def helpers() -> Any:
    """What stands in for a GPU; it belongs to the tests."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "helpers"))
    import openrlhf_on_cpu

    return openrlhf_on_cpu


def settings_of(way: Way, seed: int, recipe: Recipe, folder: Path) -> dict[str, Any]:
    """The recipe as settings of a run file, by path."""
    run, own = recipe.marsrl, way.settings or {}
    assert run.rollouts is not None
    return {
        **helpers().MINIATURE,
        "out": str(folder),
        "seed": seed,
        "steps": run.steps,
        "problems_per_step": run.problems_per_step,
        "environment.problem_options": {"split": "train", "seed": seed},
        "team.agents": "mars_env.miniature.agents:team",
        "team.model": str(folder / "start"),
        "rollouts": run.rollouts.model_dump(mode="json"),
        "sampling.temperature": recipe.temperature,
        "train": run.train.model_dump(mode="json", exclude={"seed"}),
        "train.uniform_groups": "drop",  # as the first rows
        "openrlhf.rollout.micro_batch_size": MICRO,
        "openrlhf.train.micro_batch_size": MICRO,
        **own,
        **({"pipeline.groups_per_update": groups_per_update(run)} if "pipeline.staleness" in own else {}),
    }


Curves = dict[str, list[float | None]]
"""Mean reward by role, for each update."""


def groups_per_update(run: RunSettings) -> int:
    """How many groups an asynchronous update trains."""
    return round(GROUPS_OF_A_PROBLEM * run.problems_per_step)


async def locally(
    way: Way, seed: int, recipe: Recipe, folder: Path
) -> tuple[TrainedMiniature, dict[str, float], Curves]:
    """Train with the local trainer."""
    if way.stale is not None:
        train = recipe.marsrl.train.model_copy(update=dict(way.stale))
        changed: dict[str, Any] = {"train": train}
        if not way.late:
            groups = groups_per_update(recipe.marsrl)
            changed["pipeline"] = PipelineSettings(staleness=1, groups_per_update=groups)
        recipe = recipe.model_copy(update={"marsrl": recipe.marsrl.model_copy(update=changed)})
    logger = JsonlLogger(folder / "figures.jsonl")
    train_way = train_late if way.late else train_arm
    trained = await train_way(ARM["all"], seed, recipe, loggers=[logger])
    logged = read_jsonl(logger.path)
    counts = {"updates": float(len(trained.history))}
    if way.stale is not None:
        counts["oldest"] = max(step["pipeline/oldest"] for step in logged)
        counts["age"] = sum(step["pipeline/age"] for step in logged) / len(logged)
    return trained, counts, rewards_of(trained.history, ROLES)


async def train_late(
    arm: Arm, seed: int, recipe: Recipe, *, loggers: Sequence[Logger] = ()
) -> TrainedMiniature:
    """Train as `train_arm`, but each step's groups one update late: all are one version old."""
    models = dict.fromkeys(ROLES, load())
    game, team, problems, settings = set_up(arm, seed, recipe, models)
    config = settings.train.model_copy(update={"seed": seed})
    trainer = LocalTrainer(team.policies, config)

    def batches(done: int) -> AsyncGenerator[UpdateBatch]:
        return one_late(rollouts(game, team, problems, settings, done=done), team.policies)

    history = await fit(trainer, batches, settings.steps, refresh=team.refresh, loggers=loggers)
    return TrainedMiniature(models, tuple(history))


async def one_late(
    batches: AsyncGenerator[UpdateBatch], policies: Mapping[str, Policy]
) -> AsyncGenerator[UpdateBatch]:
    """Each batch once the next one has been sampled, with its groups' ages at that time."""

    def version(policy: str) -> int:
        return policies[policy].version

    def aged(batch: UpdateBatch) -> UpdateBatch:
        return replace(batch, ages=tuple(age(group, version) for group in batch.groups))

    async with aclosing(batches):
        held = await anext(batches)
        async for batch in batches:
            yield aged(held)
            held = batch
        yield aged(held)


def through_openrlhf(
    way: Way, seed: int, recipe: Recipe, folder: Path
) -> tuple[TrainedMiniature, dict[str, float], Curves]:
    """Train with OpenRLHF, in processes of its own."""
    from studies.common.head_padding import pad_heads

    folder.mkdir(parents=True, exist_ok=True)
    start = load()
    pad_heads(start.module, HEADS).float().save_pretrained(folder / "start")
    start.tokenizer.save_pretrained(folder / "start")
    cpu = helpers()
    with cpu.ray_on_cpus(float32=way.float32) as env, (folder / "log.txt").open("w") as log:
        command = cpu.command(recipe.environment, settings_of(way, seed, recipe, folder))
        done = subprocess.run(command, env=env, stdout=log, stderr=log, cwd=folder)
    if done.returncode:
        raise ConfigError(f"OpenRLHF ended with code {done.returncode}; its output is {folder / 'log.txt'}")
    steps = list(cpu.logged(folder).values())
    waited, updated = (sum(step[f"seconds/{what}"] for step in steps) for what in ("waited", "update"))
    counts = {
        "updates": float(len(steps)),
        "oldest": max(step["pipeline/oldest"] for step in steps),
        "age": sum(step["pipeline/age"] for step in steps) / len(steps),
        "vllm_kl_most": max(abs(step["vllm_kl"]) for step in steps),
        "idle_share": waited / (waited + updated),
        "interrupted": sum(step.get(f"role/{role}/interrupted", 0.0) for step in steps for role in ROLES),
    }
    model = load(folder / "model")
    model.module.float()
    rewards = {role: [step.get(f"role/{role}/reward") for step in steps] for role in ROLES}
    return TrainedMiniature(dict.fromkeys(ROLES, model), ()), counts, rewards


@arm_by_arm
async def play(name: str, run: Run) -> Result:
    """Train one way, then evaluate on the seed's held-out problems."""
    began, way, seed, recipe = time.perf_counter(), WAYS[name], run.seed, run.recipe
    if way.past:
        raise ConfigError(f"{name!r} needs the code of the commit that its rows name")
    folder = run.cache / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"
    if way.settings is None:
        trained, counts, rewards = await locally(way, seed, recipe, folder)
    else:
        trained, counts, rewards = through_openrlhf(way, seed, recipe, folder)
    training = round(time.perf_counter() - began, 1)
    trees = await evaluate_team(trained, seed, recipe)
    found = metrics_of(trees)
    figures = {figure: found[figure].value for figure in (*COLUMNS, "tokens") if figure in found}
    detail = {"problems": len(trees), "seconds_of_training": training, "rewards": rewards}
    return Result(figures | counts, detail, time.perf_counter() - began)


def curves(rows: Sequence[LedgerRow], role: str, parts: int = 15) -> dict[str, list[tuple[float, float]]]:
    """A role's mean reward over training, by plotted arm."""
    found = {name: reward_curve([row for row in rows if row.arm == name], role, parts) for name in PLOTTED}
    return {name: [(100 * (n + 0.5) / parts, mean) for n, mean in curve] for name, curve in found.items()}


def shown(_: Sequence[LedgerRow]) -> dict[str, Any]:
    """What the page shows beside the figures of the rows."""
    return {"ways": {name: way for name, way in WAYS.items() if name != NOT_RUN}, "differences": CLAIMS}


def plots(rows: Sequence[LedgerRow]) -> dict[str, bytes]:
    """Each role's mean reward over the updates."""
    return {
        f"openrlhf-{role}.svg": training_curves(
            curves(rows, role), ylabel=f"{role.capitalize()}: mean reward", xlabel="% of the updates"
        )
        for role in ROLES
    }


STUDY = Study(
    name="openrlhf",
    version="cb34862dd02e",
    task="MarsRL through OpenRLHF",
    starts="1, the same",
    arms=tuple(WAYS),
    recipe=RECIPE,
    quick=QUICK,
    play=play,
    shown=shown,
    claims=PLANNED_CLAIMS,
    seeds="5-7",
    seeds_of_arm=dict.fromkeys(LATER, range(5, 11)) | {NOT_RUN: ()},
    columns=COLUMNS,
    unrepeatable=tuple(name for name, way in WAYS.items() if not way.repeats),
    plots=plots,
)
