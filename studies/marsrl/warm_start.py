"""The warm start: teach a new miniature its roles by demonstrations, in stages.

    python -m studies.marsrl.warm_start --out DIRECTORY --seed 0

made the shipped checkpoint. The last stage teaches bad habits, so that training has a skill to bring back.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import torch
import typer
from rich.progress import Progress
from transformers import Qwen3ForCausalLM

from mars_env.miniature.model import TOKEN_IDS, build_model, build_tokenizer
from mars_env.miniature.protocol import END, PAD, SPECIAL
from mars_env.seeds import derive_seed
from studies.common.episodes import updates, written_losses
from studies.common.ledger import Frozen
from studies.marsrl.demonstrations import ROLES, Demonstration, Faults, Role, demonstrate


class Stage(Frozen):
    """One stage of the warm start: shares of Solver, Verifier and Corrector rows, and their faults."""

    name: str
    steps: int
    learning_rate: float
    mix: tuple[float, float, float]
    faults: Faults = Faults()
    rows: int = 48


STAGES: Final = (
    Stage(name="solve", steps=950, learning_rate=3e-3, mix=(1, 0, 0)),
    Stage(name="roles", steps=400, learning_rate=1.5e-3, mix=(0.25, 0.5, 0.25), faults=Faults(mark_weight=3)),
    Stage(
        name="practice",
        steps=650,
        learning_rate=2.5e-3,
        mix=(0.3, 0.4, 0.3),
        faults=Faults(mark_weight=3, wild=0.6),
    ),
    Stage(
        name="marks",
        steps=450,
        learning_rate=1.5e-3,
        mix=(0.1, 0.8, 0.1),
        faults=Faults(mark_weight=8, wild=0.3, shown=(0.0, 0.2, 0.4), continued=0.5),
    ),
    Stage(
        name="habits",
        steps=150,
        learning_rate=5e-4,
        mix=(0.4, 0.4, 0.2),
        faults=Faults(
            solver=0.12,
            corrector=0.15,
            lazy=0.4,
            glance=0.8,
            mark_weight=3,
            shown=(0.0, 0.2, 0.5),
            continued=0.5,
        ),
    ),
)


def loss_sum(
    model: Qwen3ForCausalLM, rows: Sequence[Demonstration], encode: Callable[[str], list[int]]
) -> tuple[torch.Tensor, float]:
    """The weighted cross-entropy of some demonstrations, summed over tokens, and the sum of the weights."""
    ids = [(encode(row.prompt), [TOKEN_IDS[piece] for piece in row.completion]) for row in rows]
    weights = torch.tensor([weight for row in rows for weight in row.weights])
    return (written_losses(model, ids) * weights).sum(), float(weights.sum())


def train(
    model: Qwen3ForCausalLM,
    stages: Sequence[Stage] = STAGES,
    seed: int = 0,
    progress: Callable[[str, int, dict[str, float]], None] | None = None,
    demonstrations: Callable[[Role, random.Random, Faults], Demonstration] = demonstrate,
) -> None:
    """Warm-start a model in place."""
    tokenizer = build_tokenizer()

    def encode(prompt: str) -> list[int]:
        return list(tokenizer(prompt)["input_ids"])

    for stage in stages:
        rng = random.Random(derive_seed(seed, "warm start", stage.name))
        for number in updates(model, stage.steps, stage.learning_rate):
            drawn = rng.choices(ROLES, stage.mix, k=stage.rows)
            rows = {
                role: [demonstrations(role, rng, stage.faults) for _ in range(drawn.count(role))]
                for role in ROLES
            }
            total = sum(sum(row.weights) for batch in rows.values() for row in batch)
            means: dict[str, float] = {}
            for role, batch in rows.items():  # a forward pass for each role: less padding
                if batch:
                    loss, weight = loss_sum(model, batch, encode)
                    (loss / total).backward()  # type: ignore[no-untyped-call]
                    means[role] = float(loss.detach()) / weight
            if progress is not None:
                progress(stage.name, number + 1, means)


def main(
    out: Annotated[Path, typer.Option(help="Directory of the checkpoint.")],
    seed: Annotated[int, typer.Option(help="Of the initial weights and the demonstrations.")] = 0,
) -> None:
    """Build a miniature, warm-start it, and write it as an ordinary Hugging Face checkpoint."""
    torch.set_num_threads(1)  # more threads only slow a model of this size down
    model = build_model(seed)
    with Progress() as bar:
        tasks = {stage.name: bar.add_task(stage.name, total=stage.steps) for stage in STAGES}

        def show(name: str, step: int, losses: dict[str, float]) -> None:
            shown = ", ".join(f"{role} {loss:.3f}" for role, loss in losses.items())
            bar.update(tasks[name], completed=step, description=f"{name} (loss: {shown})")

        train(model, STAGES, seed, show)
    save(model, out)


def save(model: Qwen3ForCausalLM, directory: Path) -> None:
    """Write the model and its tokenizer as an ordinary Hugging Face checkpoint."""
    model.save_pretrained(directory)
    (directory / "model.safetensors").chmod(0o644)  # safetensors makes the file private
    build_tokenizer().save_pretrained(directory)
    # In a form that older releases of transformers (as vLLM and OpenRLHF use) can read, too.
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": PAD,
        "eos_token": END,
        "unk_token": PAD,
        "additional_special_tokens": list(SPECIAL[2:]),
        "clean_up_tokenization_spaces": False,
        "padding_side": "left",
        "model_max_length": model.config.max_position_embeddings,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


if __name__ == "__main__":
    typer.run(main)
