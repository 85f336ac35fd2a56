"""What the proof of weights costs: checksums of a trainer and of its sampler, beside one update.

    python benchmarks/weight_checksums.py

CPU time of one thread, in seconds: the smallest of several runs that take turns.
"""

import copy
import time
from collections.abc import Callable
from typing import Any

import torch
from trainer import SIZES, group_of, new_model, rows_of

from mars_env.models.checksums import checksums
from mars_env.trainers import LocalTrainer, TrainConfig
from mars_env.trainers.policy import Policy

ROUNDS = {"small": 5, "large": 1}


def cpu_seconds(call: Callable[[], Any]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def main() -> None:
    torch.set_num_threads(1)
    for size, rounds in ROUNDS.items():
        model, _ = new_model(SIZES[size])
        trainer = LocalTrainer({"model": Policy(model)}, TrainConfig(learning_rate=1e-6))
        group = group_of(rows_of("full", SIZES[size][3]))
        copies = {str(dtype): copy.deepcopy(model).to(dtype) for dtype in (torch.float32, torch.bfloat16)}
        update = [cpu_seconds(lambda: trainer.step([group])) for _ in range(rounds)]  # noqa: B023
        for dtype, sampler in copies.items():
            compare = [cpu_seconds(lambda: compared(model, sampler)) for _ in range(rounds)]  # noqa: B023
            share = min(compare) / min(update)
            print(f"{size}, {dtype}: {min(compare):.4f} s, update {min(update):.3f} s: {share:.2%}")


def compared(model: Any, sampler: Any) -> bool:
    """Whether both have the same weights, as after a refresh."""
    held = checksums(sampler.state_dict())
    return held == checksums(model.state_dict(), {name: held[name].dtype for name in held})


if __name__ == "__main__":
    main()
