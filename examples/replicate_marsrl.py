"""MarsRL's ablation in miniature, over seeds, with equal-token baselines.

    python examples/replicate_marsrl.py --seeds 0-4     # runs what the ledger lacks, then writes the page
    python examples/replicate_marsrl.py --table         # only writes the page
    python examples/replicate_marsrl.py --check 0       # plays one seed again and compares its rows exactly

Every arm gets the same problems and steps. Rows go to docs/results/marsrl.jsonl, so that seeds accumulate
over runs; the part of docs/results.md on MarsRL is made from them. The settings are fixed in
trainers/miniature/recipe.py and were tuned on other seeds and problems than those reported.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import torch
import typer
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.console import Console

from mars_env.errors import ConfigError
from mars_env.evaluation import (
    Ledger,
    LedgerRow,
    Provenance,
    arm_difference,
    arm_estimate,
    arms_table,
    origins,
    provenance,
    settings_hash,
)
from mars_env.evaluation.claims import Claim, claims_table, judge
from mars_env.evaluation.ledger import seed_text, seeds_of
from mars_env.evaluation.pages import write_part
from mars_env.evaluation.plots import training_curves
from mars_env.evaluation.report import markdown_table
from mars_env.trainers.miniature import CHECKPOINT
from mars_env.trainers.miniature.experiment import (
    ARMS,
    Arm,
    equal_token_baselines,
    evaluate_team,
    figures_of,
    train_arm,
)
from mars_env.trainers.miniature.recipe import RECIPE

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
LEDGER = Ledger(DOCS / "results" / "marsrl.jsonl")
MACHINE = "one core of a 2-core machine"
ROLES = ("solver", "verifier", "corrector")
LENGTHS = {"short": (1, 2, 3), "long": (4, 5, 6)}
COLUMNS = {
    "solver_accuracy": "Solver",
    "system_accuracy": "System",
    "gain": "System - Solver",
    "verifier_precision": "Verifier precision",
    "verifier_recall": "Verifier recall",
    "fix_rate": "fixes",
    "break_rate": "breaks",
}
BASELINES = {
    "majority": "majority vote",
    "refinement": "self-refinement",
    "going_on": "going on writing",
}
SYSTEM, SOLVER = "system_accuracy", "solver_accuracy"
CLAIMS = (
    Claim("before training, the loop adds nothing or hurts", "none", SYSTEM, "none", SOLVER, above=False),
    Claim("joint training improves the Solver", "all", SOLVER, "none"),
    Claim("joint training improves the System", "all", SYSTEM, "none"),
    Claim("after joint training, System above Solver", "all", SYSTEM, "all", SOLVER),
    Claim("System: joint above Solver only", "all", SYSTEM, "solver"),
    Claim("System: joint above Verifier and Corrector only", "all", SYSTEM, "verifier+corrector"),
    Claim("Solver: joint above Verifier and Corrector only", "all", SOLVER, "verifier+corrector"),
    Claim("System, own weights for each role: joint above Verifier and Corrector only",
          "separate all", SYSTEM, "separate verifier+corrector"),
    Claim("System: own rewards above one shared reward", "all", SYSTEM, "shared"),
)  # fmt: skip
console = Console(width=110)


def settings() -> str:
    """The hash of everything that decides a result except arm and seed: the recipe and the warm start."""
    weights = hashlib.sha256((CHECKPOINT / "model.safetensors").read_bytes()).hexdigest()
    return settings_hash({"recipe": RECIPE.model_dump(mode="json"), "warm start": weights})


async def run(arm: Arm, seed: int, origin: Provenance) -> LedgerRow:
    """Train and evaluate one arm on one seed."""
    began = time.perf_counter()
    trained = await train_arm(arm, seed)
    trees = await evaluate_team(trained, seed)
    found = figures_of(trees)
    figures = {name: found[name].value for name in (*COLUMNS, "tokens") if name in found}
    for length, levels in LENGTHS.items():
        part = figures_of([tree for tree in trees if tree.problem.metadata["level"] in levels])
        for name in ("solver_accuracy", "system_accuracy"):
            figures[f"{name}_{length}"] = part[name].value
    for name, baseline in (await equal_token_baselines(trained, trees, seed)).items():
        figures[f"baseline_{name}"] = baseline.accuracy.value
        figures[f"baseline_{name}_tokens"] = baseline.tokens
    rewards: dict[str, list[float | None]] = {}
    for role in ROLES:
        of_role = [step.roles.get(role, {}) for step in trained.history]
        figures[f"trained_{role}"] = sum(values.get("trained", 0.0) for values in of_role)
        rewards[role] = [values.get("reward") for values in of_role]
    return LedgerRow(
        arm=arm.name,
        seed=seed,
        commit=origin.commit,
        versions=origin.versions,
        settings=settings(),
        seconds=round(time.perf_counter() - began, 1),
        figures={name: value for name, value in figures.items() if value is not None},
        detail={"rewards": rewards, "problems": len(trees), "steps": len(trained.history)},
    )


def play(name: str, seed: int, origin: Provenance) -> LedgerRow:
    """`run` in a process of its own."""
    torch.set_num_threads(1)
    return asyncio.run(run(next(arm for arm in ARMS if arm.name == name), seed, origin))


def page(rows: Sequence[LedgerRow]) -> str:
    """The part of docs/results.md on MarsRL."""
    present = [arm for arm in ARMS if any(row.arm == arm.name for row in rows)]
    names = [arm.name for arm in present]
    joint = [row for row in rows if row.arm == "all"]

    def mean(arm: str, figure: str) -> str:
        return f"{arm_estimate(rows, arm, figure).mean:,.0f}"

    turns = [(name, *(mean(name, f"trained_{role}") for role in ROLES)) for name in names]
    against = {
        key: arm_difference(rows, "all", "all", f"baseline_{key}", "system_accuracy") for key in BASELINES
    }
    verdicts = [
        (
            title,
            mean("all", f"baseline_{key}_tokens"),
            seed_text(against[key], signed=True),
            judge(against[key]),
        )
        for key, title in BASELINES.items()
    ]
    figures = ("system_accuracy", *(f"baseline_{key}" for key in BASELINES))
    alone = [(name, *(seed_text(arm_estimate(rows, name, f)) for f in figures)) for name in names]
    lengths = {
        f"{who}_accuracy_{length}": f"{who.capitalize()}, {length}"
        for length in LENGTHS
        for who in ("solver", "system")
    }
    seconds = [sum(row.seconds for row in rows if row.seed == seed) for seed in {row.seed for row in joint}]
    templates = Environment(
        loader=FileSystemLoader(HERE / "templates"), undefined=StrictUndefined, keep_trailing_newline=True
    )  # Markdown, so nothing is escaped
    return templates.get_template("marsrl_results.md.jinja").render(
        present=present,
        steps=joint[0].detail["steps"],
        problems=joint[0].detail["problems"],
        arms=arms_table(rows, names, COLUMNS, differences=("gain",)),
        turns=markdown_table(("arm", *map(str.capitalize, ROLES)), turns) + "\n",
        claims=claims_table(rows, CLAIMS),
        notes=NOTES.read_text(encoding="utf-8") if NOTES.exists() else "",
        lengths=arms_table(rows, names, lengths),
        baselines=markdown_table(("arm", "System", *BASELINES.values()), alone) + "\n",
        verdicts=markdown_table(("baseline", "tokens a problem", "difference", "System above it"), verdicts)
        + "\n",
        tokens=mean("all", "tokens"),
        fastest=f"{min(seconds):.0f}",
        slowest=f"{max(seconds):.0f}",
        machine=MACHINE,
        origins=origins(rows),
    )


NOTES = DOCS / "results" / "marsrl-notes.md"
"""What a reader must know of the outcome, written by hand."""


def curves(rows: Sequence[LedgerRow]) -> Mapping[str, Sequence[tuple[float, float]]]:
    """Mean reward by role and step over the seeds; a step at which a role did not act has none."""
    found: dict[str, list[tuple[float, float]]] = {}
    for role in ROLES:
        by_step = zip(*(row.detail["rewards"][role] for row in rows), strict=True)
        known = [(step, [v for v in values if v is not None]) for step, values in enumerate(by_step, 1)]
        found[role] = [(step, sum(values) / len(values)) for step, values in known if values]
    return found


def write_page() -> None:
    """Make the part of docs/results.md and its plot from the ledger's rows of the present settings."""
    rows = LEDGER.rows(settings())
    joint = [row for row in rows if row.arm == "all"]
    if not joint:
        raise ConfigError(f"{LEDGER.path} holds no jointly trained row of the present settings; run a seed")
    write_part(DOCS / "results.md", "marsrl", page(rows))
    plot = training_curves(curves(joint), ylabel="mean reward")
    (DOCS / "results" / "rewards.svg").write_bytes(plot)
    console.print(f"wrote {DOCS / 'results.md'}", highlight=False)


def check(seed: int, arms: Sequence[Arm]) -> bool:
    """Play a seed's rows again; says which figures differ."""
    stored = {row.arm: row for row in LEDGER.rows(settings()) if row.seed == seed}
    same, origin = True, provenance(allow_dirty=True)  # nothing is recorded
    for arm in arms:
        if arm.name not in stored:
            raise ConfigError(f"the ledger holds no row of {arm.name!r}, seed {seed}")
        then, now = stored[arm.name].figures, play(arm.name, seed, origin).figures
        differs = sorted(name for name in {*then, *now} if then.get(name) != now.get(name))
        same &= not differs
        console.print(
            f"{arm.name}, seed {seed}: {'differs in ' + ', '.join(differs) if differs else 'the same'}"
        )
    return same


def main(
    seeds: Annotated[str, typer.Option(help='E.g. "0-4"; what the ledger holds is not run again.')] = "0-4",
    arm: Annotated[list[str] | None, typer.Option(help="Only these arms; repeatable.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes at once, one core each.")] = 2,
    table: Annotated[bool, typer.Option("--table", help="Only write docs/results.md.")] = False,
    check_seed: Annotated[int | None, typer.Option("--check", help="Play a seed again, compare.")] = None,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Record rows of uncommitted code; they are marked.")
    ] = False,
) -> None:
    """Run MarsRL's ablation in miniature and write docs/results.md."""
    arms = [a for a in ARMS if not arm or a.name in arm]
    if check_seed is not None:
        raise typer.Exit(0 if check(check_seed, arms) else 1)
    if not table:
        origin = provenance(allow_dirty=allow_dirty)
        owed = LEDGER.missing([a.name for a in arms], seeds_of(seeds), settings())
        owed.sort(key=lambda pair: pair[1])  # seed by seed, so that an interrupted run leaves whole seeds
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            for future in as_completed([pool.submit(play, name, seed, origin) for name, seed in owed]):
                row = future.result()
                LEDGER.append(row)
                solver, system = (100 * row.figures[f"{who}_accuracy"] for who in ("solver", "system"))
                shown = f"{row.arm}, seed {row.seed}: Solver {solver:.1f}, System {system:.1f}"
                console.print(f"{shown}, {row.seconds:.0f} s", highlight=False)
    write_page()


if __name__ == "__main__":
    typer.run(main)
