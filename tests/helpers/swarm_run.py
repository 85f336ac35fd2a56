"""Locks that are opened by samplers in other processes: the parts of a run, and the run as a script.

python swarm_run.py sampler URL               # acts until the training is over
python swarm_run.py learner FOLDER PORT BOUND STEPS
"""

import asyncio
import os
import signal
import socket
import sys
import time
from pathlib import Path

import torch
from kills import Recorded, fork, logged

from mars_env.envs import Game, GroupedSettings, Solve
from mars_env.envs.rubric_rewards import RubricReward
from mars_env.grading.rubrics import RubricGrader, WeightedSum
from mars_env.loggers import JsonlLogger
from mars_env.miniature.model import build_model, build_tokenizer
from mars_env.miniature.protocol import END, PAD
from mars_env.models import BatchLimits, HFModel
from mars_env.rollout import PipelineSettings
from mars_env.trainers import Policy, RunSettings, Team, TrainConfig, loop, refresher
from mars_env.trainers.swarm import SamplerSettings, Swarm, SwarmSettings, run_sampler

sys.path.append(str(Path(__file__).parents[2]))

from studies.rubrics.lock import PATTERN, SAMPLING, SHAPE, VOCABULARY, locks, opener, step_is_right

GROUP, LOCKS = 4, 3
AGENTS = {"solver_0": "opener"}


def model() -> HFModel:
    """A new random model; each group is a batch of its own, so batches do not depend on the timing."""
    torch.set_num_threads(1)
    parts = build_model(0, len(VOCABULARY), SHAPE), build_tokenizer(VOCABULARY, (PAD, END), PATTERN)
    return HFModel(parts, device="cpu", name="opener", batch=BatchLimits(GROUP))


def game() -> Game:
    """The share of right places is the reward."""
    grader = RubricGrader(aggregate=WeightedSum(), checks={"step": step_is_right})
    return Game(Solve(), grader, rewards={"solver": RubricReward(WeightedSum())})


def problems():
    """A few locks."""
    return locks(0)[:LOCKS]


def settings(bound: int = 0, steps: int = 3, **changes) -> RunSettings:
    """A short run."""
    return RunSettings(
        seed=1,
        steps=steps,
        problems_per_step=LOCKS,
        rollouts=GroupedSettings(group=GROUP, branches=1),
        sampling=SAMPLING,
        pipeline=PipelineSettings(staleness=bound, **changes),
        train=TrainConfig(learning_rate=3e-3),
    )


async def sample(url: str, playing: HFModel | None = None, key="", weights=None, **options) -> int:
    """A sampler with a model of its own."""
    playing, chosen = playing or model(), SamplerSettings(**options)
    agents = {"solver_0": opener(playing)}
    return await run_sampler(agents, {"opener": playing}, url, chosen, key=key, weights=weights)


async def in_one_process(chosen: RunSettings):
    """The synchronous run, with the same batches: its model and the metrics of each update."""
    both = model()
    policies = {"opener": Policy(both.module, both.tokenizer)}
    team = Team({"solver_0": opener(both)}, policies, refresher({"opener": both}))
    return both.module, await loop.train(game(), team, problems(), chosen)


async def learn(folder: Path, port: int, chosen: RunSettings, **options) -> HFModel:
    """Train to the end, continuing from what is in the folder."""
    trained = model()
    Recorded.directory = folder
    loop.LocalTrainer = Recorded
    swarm = Swarm(
        AGENTS,
        {"opener": Policy(trained.module, trained.tokenizer)},
        folder / "weights",
        SwarmSettings(max_staleness=chosen.pipeline.staleness, lease=2.0),
        port=port,
        **options,
    )
    async with swarm:
        await loop.train(
            game(),
            swarm.team,
            problems(),
            chosen,
            directory=folder,
            checkpoint_every=1,
            loggers=[JsonlLogger(folder / "metrics.jsonl")],
        )
    return trained


class Processes:
    """A learner and a sampler, each a fork of this process, so that torch is imported once."""

    def __init__(self, folder: Path, bound: int, steps: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.folder, self.chosen = folder, settings(bound, steps)

    def learner(self) -> int:
        """Start one."""

        def run() -> None:
            trained = asyncio.run(learn(self.folder, self.port, self.chosen))
            torch.save(trained.module.state_dict(), self.folder / "weights.pt")

        return fork(run)

    def sampler(self) -> int:
        """Start one."""
        return fork(lambda: asyncio.run(sample(f"http://127.0.0.1:{self.port}")))

    def reach(self, step: int, *processes: int) -> None:
        """Wait until so many updates are logged."""
        while logged(self.folder) < step:
            for process in processes:
                if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                    raise SystemExit("a process ended before it could be killed")
            time.sleep(0.005)


def main() -> None:
    """Kill both processes in turn with SIGKILL and start them again; then let the run end."""
    folder, bound, steps = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    run = Processes(folder, bound, steps)
    learner, sampler = run.learner(), run.sampler()
    run.reach(steps // 4, learner, sampler)
    kill(sampler)
    sampler = run.sampler()
    run.reach(steps // 2, learner, sampler)
    kill(learner)
    learner = run.learner()
    run.reach(3 * steps // 4, learner, sampler)
    kill(sampler)
    kill(learner)
    for process in (run.learner(), run.sampler()):
        _, status = os.waitpid(process, 0)
        if status:
            raise SystemExit("a process failed")


def kill(process: int) -> None:
    """SIGKILL."""
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit("a process ended before it could be killed")


if __name__ == "__main__":
    main()
