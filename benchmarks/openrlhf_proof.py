"""Proof that training through OpenRLHF works: the miniature before and after training, over several seeds.

    make prove-openrlhf                       # runs the seeds that the ledger lacks
    python benchmarks/openrlhf_proof.py --seeds 0 --steps 4 --problems 50 --out /tmp/proof   # a short run

MarsRL with the recipe of trainers/miniature/recipe.py, as far as OpenRLHF has the same settings:
asynchronous, with partial rollouts, on Ray, DeepSpeed and vLLM for CPUs. Solver and System are evaluated
before and after, on the same held-out problems. Rows are written to docs/results/openrlhf.jsonl.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from mars_env.evaluation import Ledger, LedgerRow, Provenance, compare, provenance, settings_hash
from mars_env.trainers.miniature import load
from mars_env.trainers.miniature.experiment import Trained, evaluate_team, figures_of
from mars_env.trainers.miniature.recipe import RECIPE
from mars_env.trainers.openrlhf.rollouts.record import UPDATES, read_lines

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

import openrlhf_on_cpu  # noqa: E402  (the replacement for a GPU belongs to the tests)

LEDGER = ROOT / "docs" / "results" / "openrlhf.jsonl"
FIGURES = (
    "solver_accuracy",
    "system_accuracy",
    "verifier_precision",
    "verifier_recall",
    "fix_rate",
    "break_rate",
)
STALENESS = 1
HEADS = 32
"""A width of attention heads that vLLM's kernels for CPUs support."""

MICRO = 60
GROUPS = 50
"""Groups per update: about as many as the recipe's ten problems give."""

console = Console(width=110)


def flags_of(seed: int, steps: int, folder: Path) -> dict[str, str | None]:
    """The run's flags: the recipe's settings under OpenRLHF's names."""
    recipe, train = RECIPE.marsrl, RECIPE.marsrl.train
    assert recipe.rollouts is not None
    return {
        **openrlhf_on_cpu.MINIATURE,
        "--mars.env": RECIPE.environment,
        "--mars.options": '{"schedule": "training"}',
        "--mars.problem_options": f'{{"split": "train", "seed": {seed}}}',
        "--mars.problems": str(steps * recipe.problems_per_step),
        "--mars.agents": "mars_env.trainers.miniature.agents:team",
        "--mars.group": str(recipe.rollouts.group),
        "--mars.branches": str(recipe.rollouts.branches),
        "--mars.sampling": recipe.rollouts.sampling,
        "--mars.staleness": str(STALENESS),
        "--mars.groups_per_update": str(GROUPS),
        "--mars.seed": str(seed),
        "--mars.record": str(folder / "record"),
        "--rollout.batch_size": str(recipe.problems_per_step),
        "--rollout.temperature": str(RECIPE.temperature),
        "--rollout.micro_batch_size": str(MICRO),
        "--train.micro_batch_size": str(MICRO),
        "--train.batch_size": str(8 * MICRO),
        "--train.seed": str(seed),
        "--train.async_enable": None,
        "--train.partial_rollout_enable": None,
        "--actor.adam.lr": str(train.learning_rate),
        "--actor.adam.betas": " ".join(map(str, train.betas)),
        "--actor.lr_scheduler": "constant_with_warmup",
        "--actor.lr_warmup_ratio": str(train.warmup_updates / steps),
        "--actor.max_norm": str(train.max_grad_norm),
        "--logger.tensorboard_dir": str(folder / "board"),
        "--ckpt.path": str(folder / "checkpoints"),
        "--ckpt.output_dir": str(folder / "model"),
        "--actor.model_name_or_path": str(folder / "start"),
    }


def evaluated(checkpoint: Path, seed: int, problems: int) -> list:
    """The trees of an evaluation on held-out problems."""
    model = load(checkpoint)
    model.module.float()
    recipe = RECIPE.model_copy(update={"evaluation_problems": problems})
    trained = Trained(dict.fromkeys(("solver", "verifier", "corrector"), model), ())
    return asyncio.run(evaluate_team(trained, seed, recipe))


def start(path: Path) -> None:
    """Write the shipped checkpoint with heads of a width that vLLM supports."""
    from mars_env.agents.head_padding import pad_heads

    model = load()
    pad_heads(model.module, HEADS).float().save_pretrained(path)
    model.tokenizer.save_pretrained(path)


def prove(seed: int, steps: int, problems: int, folder: Path, settings: str, origin: Provenance) -> LedgerRow:
    """Train, evaluate before and after."""
    began = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    start(folder / "start")
    flags = flags_of(seed, steps, folder)
    with openrlhf_on_cpu.ray_on_cpus() as env, (folder / "log.txt").open("w") as log:
        subprocess.run(
            openrlhf_on_cpu.command(flags), env=env, stdout=log, stderr=log, cwd=folder, check=True
        )
    trained_in = time.perf_counter() - began
    before = evaluated(folder / "start", seed, problems)
    after = evaluated(folder / "model", seed, problems)
    comparison = compare(before, after, names=("before", "after"))
    figures: dict[str, float | None] = {}
    for name in FIGURES:
        for when, found in (("before", figures_of(before)), ("after", figures_of(after))):
            if name in found:
                figures[f"{name}_{when}"] = found[name].value
        if name in comparison.rows:
            difference = comparison.rows[name].difference
            figures |= {
                f"{name}_difference": difference.value,
                f"{name}_difference_low": difference.low,
                f"{name}_difference_high": difference.high,
            }
    updates = read_lines(folder / "record" / UPDATES)
    steps_logged = openrlhf_on_cpu.logged(folder / "board", "train")
    figures["updates"] = float(len(updates))
    figures["oldest"] = float(max(age for update in updates for age in update["ages"]))
    figures["vllm_kl_most"] = max(abs(step["vllm_kl"]) for step in steps_logged.values())
    figures["idle_share"] = sum(step["pipeline/idle_share"] for step in steps_logged.values()) / len(
        steps_logged
    )
    return LedgerRow(
        arm="openrlhf",
        seed=seed,
        commit=origin.commit,
        versions=origin.versions,
        settings=settings,
        seconds=round(time.perf_counter() - began, 1),
        figures={name: value for name, value in figures.items() if value is not None},
        detail={"problems": problems, "seconds_of_training": round(trained_in, 1)},
    )


def main(
    seeds: Annotated[str, typer.Option(help="Separated by commas.")] = "0,1,2",
    steps: Annotated[
        int, typer.Option(help="Play as many problems as this number of steps of the recipe.")
    ] = 60,
    problems: Annotated[int, typer.Option(help="Held-out problems of an evaluation.")] = 1000,
    out: Annotated[Path, typer.Option(help="Folder for logs and checkpoints.")] = Path("runs/openrlhf"),
    ledger: Annotated[Path, typer.Option(help="Where to write rows.")] = LEDGER,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Record rows of uncommitted code; they are marked.")
    ] = False,
) -> None:
    """Run the seeds that the ledger lacks."""
    torch.set_num_threads(1)
    origin = provenance(allow_dirty=allow_dirty)
    ledger.parent.mkdir(parents=True, exist_ok=True)
    rows = Ledger(ledger)
    settings = settings_hash({"flags": flags_of(0, steps, Path()), "problems": problems})
    for _, seed in rows.missing(["openrlhf"], map(int, seeds.split(",")), settings):
        row = prove(seed, steps, problems, (out / f"seed-{seed}").absolute(), settings, origin)
        rows.append(row)
        for name in ("solver_accuracy", "system_accuracy"):
            f = row.figures
            console.print(
                f"seed {seed}  {name}: {f[f'{name}_before']:.3f} -> {f[f'{name}_after']:.3f}, difference "
                f"{f[f'{name}_difference']:+.3f} [{f[f'{name}_difference_low']:+.3f}, "
                f"{f[f'{name}_difference_high']:+.3f}]",
                highlight=False,
            )
        console.print(
            f"seed {seed}  {row.seconds:.0f} s, {row.figures['updates']:.0f} updates", highlight=False
        )


if __name__ == "__main__":
    typer.run(main)
