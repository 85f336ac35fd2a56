"""Rollouts and training apart: agents act in processes on Ray while this one trains (docs/machines.md).

python examples/echo.py                             # two samplers on this machine
RAY_ADDRESS=10.0.0.1:6379 python examples/echo.py   # on a cluster
"""

import asyncio

import mars_env
from mars_env.agents import Solver
from mars_env.distributed import RaySamplers
from mars_env.envs import GroupedSettings
from mars_env.models import tiny_model
from mars_env.rollout import PipelineSettings
from mars_env.trainers import RunSettings, TrainConfig, make_team, train
from mars_env.types import Sampling

SETTINGS = RunSettings(
    steps=12,
    problems_per_step=4,
    rollouts=GroupedSettings(group=8, branches=1),
    sampling=Sampling(max_tokens=8),
    pipeline=PipelineSettings(staleness=2),  # 0: each step is played by the newest weights
    train=TrainConfig(learning_rate=3e-3),
    samplers=RaySamplers(count=2),
)


def digits(turn, path, problem):
    """A random model solves nothing, so the reward is the share of digits."""
    return sum(map(str.isdigit, turn.text)) / SETTINGS.sampling.max_tokens


def solver(name, model):
    """An agent whose prompt fits into the context of a tiny model."""
    return Solver(model, sampling=SETTINGS.sampling, system="", prompt="{{ problem[:40] }}")


def main():
    """Train, and print the mean reward of each step."""
    env = mars_env.make("arithmetic-solve", rewards={"solver": digits})
    model = tiny_model(context=256)
    team = make_team(SETTINGS, env.possible_agents, [model], agent=solver)
    history = asyncio.run(train(env.game, team, env.problems, SETTINGS))
    print("rewards:", *(f"{step.roles['solver']['reward']:.2f}" for step in history))


if __name__ == "__main__":
    main()
