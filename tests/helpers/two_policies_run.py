"""Runs the launcher for OpenRLHF on a CPU, and records the input of OpenRLHF: FILE ENVIRONMENT FLAGS..."""

import pickle
import sys
from pathlib import Path

from tiny_checkpoint import varied

IDLE_ON = "programs/even_count"
"""On this problem, no turn of `coder_1` has a known reward, so its policy has nothing to train on."""


def reward(turn, path, problem):
    """A value that varies among the texts of a random model."""
    if turn.agent == "coder_1" and problem.id == IDLE_ON:
        return None
    return varied(turn, path, problem)


def main(out, source, *flags):
    from mars_env.trainers.front import train_run
    from mars_env.trainers.openrlhf.workers import driver
    from mars_env.trainers.openrlhf.workers.trainer import TeamExperienceMaker
    from mars_env.trainers.run_file import load_run, parse_flags

    updates = []
    samples_of, make = driver.turn_samples, TeamExperienceMaker.compute_advantages_and_returns

    def turn_samples(groups, config, **more):
        updates.append({"groups": groups, "experiences": {}})
        return samples_of(groups, config, **more)

    def compute_advantages_and_returns(self, experiences):
        made = make(self, experiences)
        updates[-1]["experiences"][Path(self.strategy.args.ckpt.path).name] = made
        return made

    driver.turn_samples = turn_samples
    TeamExperienceMaker.compute_advantages_and_returns = compute_advantages_and_returns
    train_run(load_run(source, parse_flags(flags)))
    Path(out).write_bytes(pickle.dumps(updates))


if __name__ == "__main__":
    main(*sys.argv[1:])
