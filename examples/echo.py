"""Rollouts and training in two processes, here or on several machines; docs/machines.md explains it.

python examples/echo.py                                           # both on this machine
ECHO_KEY=... python examples/echo.py learn 0.0.0.0 8700           # where it trains
ECHO_KEY=... python examples/echo.py sample http://10.0.0.1:8700  # where it samples, any number of times
"""

import asyncio
import os
import subprocess
import sys
import tempfile

import mars_env
from mars_env.agents import Solver
from mars_env.envs import GroupedSettings
from mars_env.models import tiny_model
from mars_env.rollout import PipelineSettings
from mars_env.trainers import Policy, RunSettings, TrainConfig, train
from mars_env.trainers.swarm import Swarm, SwarmSettings, run_sampler
from mars_env.types import Sampling

SAMPLING = Sampling(max_tokens=8)
SETTINGS = RunSettings(
    steps=12,
    problems_per_step=4,
    rollouts=GroupedSettings(group=8, branches=1),
    sampling=SAMPLING,
    pipeline=PipelineSettings(staleness=2),  # 0: each step is played by the newest weights
    train=TrainConfig(learning_rate=3e-3),
)
KEY = os.environ.get("ECHO_KEY", "")


def digits(turn, path, problem):
    """A random model solves nothing, so the reward is the share of digits."""
    return sum(map(str.isdigit, turn.text)) / SAMPLING.max_tokens


async def sample(url):
    """Act until the training is over."""
    model = tiny_model(context=256)
    solver = Solver(model, sampling=SAMPLING, system="", prompt="{{ problem[:40] }}")
    print(await run_sampler({"solver_0": solver}, {"tiny": model}, url, key=KEY), "answers")


async def learn(host, port, start):
    """Train, and print the mean reward of each step and how many samplers keep the learner busy."""
    env = mars_env.make("arithmetic-solve", rewards={"solver": digits})
    model = tiny_model(context=256)
    policies = {"tiny": Policy(model.module, model.tokenizer)}
    with tempfile.TemporaryDirectory() as weights:  # a run that is to be continued keeps it
        staleness = SwarmSettings(max_staleness=SETTINGS.pipeline.staleness)
        where = {"host": host, "port": port, "keys": [KEY] if KEY else []}
        async with Swarm({"solver_0": "tiny"}, policies, weights, staleness, **where) as swarm:
            start(swarm.url)
            history = await train(env.game, swarm.team, env.problems, SETTINGS, loggers=[swarm])
    print("rewards:", *(f"{step.roles['solver']['reward']:.2f}" for step in history))
    print(swarm.capacity())


def start_sampler(url):
    """A sampler in a process of its own, which ends with the training."""
    subprocess.Popen([sys.executable, __file__, "sample", url])


def main():
    """Both processes here, or one of them."""
    if len(sys.argv) == 1:
        asyncio.run(learn("127.0.0.1", 0, start_sampler))
    elif sys.argv[1] == "learn":
        asyncio.run(learn(sys.argv[2], int(sys.argv[3]), print))
    else:
        asyncio.run(sample(sys.argv[2]))


if __name__ == "__main__":
    main()
