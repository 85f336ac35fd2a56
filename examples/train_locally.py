"""Train a team with MarsRL on this machine, then evaluate what was trained.

python examples/train_locally.py                    # the library's miniature, three updates on a CPU
python examples/train_locally.py Qwen/Qwen3-0.6B    # any checkpoint
"""

import asyncio
import sys

import mars_env
from mars_env.envs import GroupedSettings
from mars_env.miniature import load
from mars_env.miniature.agents import team as miniature_agents
from mars_env.models import HFModel
from mars_env.trainers import MARSRL, TrainConfig, make_team, train
from mars_env.types import Sampling

env = mars_env.make("arithmetic-solve-verify-correct", schedule="training", rounds=1)
small = {
    "steps": 3,
    "problems_per_step": 4,
    "rollouts": GroupedSettings(group=4, branches=1),
    "sampling": Sampling(temperature=1.0, max_tokens=512),
    "train": TrainConfig(learning_rate=3e-4),
}
settings = MARSRL.with_(**small, out="runs/trained")
if len(sys.argv) > 1:
    model, agent = HFModel(sys.argv[1], name="one"), None  # the prompts of the library
else:
    model = load()
    agents = miniature_agents(model)

    def agent(name, _):
        """The miniature's agents have their own prompts: it knows 35 tokens."""
        return agents[name]


team = make_team(settings, env.possible_agents, [model], agent=agent)

for step in asyncio.run(train(env.game, team, env.problems, settings)):
    print(step.step, {role: round(figures["reward"], 2) for role, figures in step.roles.items()})

held_out = mars_env.load_problems("arithmetic", split="test", n=20)
report = mars_env.evaluate("arithmetic-solve-verify-correct", agents=team.agents, problems=held_out)
print(report.headline)
