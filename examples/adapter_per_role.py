"""One base model, an adapter (LoRA) for each role: three policies for the memory of one.

pip install -e '.[hf,lora]'
python examples/adapter_per_role.py                    # a random tiny model
python examples/adapter_per_role.py Qwen/Qwen3-0.6B
"""

import asyncio
import sys

import mars_env
from mars_env.envs import GroupedSettings
from mars_env.models import HFModel, tiny_model
from mars_env.trainers import MARSRL, TrainConfig, make_team, train
from mars_env.trainers.lora import add_adapters
from mars_env.types import Sampling


def digits(turn, path, problem):
    """A random model solves nothing, so the example rewards digits."""
    return sum(letter.isdigit() for letter in turn.text) / 8


rewards = dict.fromkeys(("solver", "verifier", "corrector"), digits) if len(sys.argv) == 1 else None
env = mars_env.make("arithmetic-solve-verify-correct", schedule="training", rounds=1, rewards=rewards)
small = {
    "steps": 2,
    "problems_per_step": 2,
    "rollouts": GroupedSettings(group=4, branches=1),
    "sampling": Sampling(temperature=1.0, max_tokens=8 if len(sys.argv) == 1 else 512),
    "train": TrainConfig(learning_rate=1e-3),
}
settings = MARSRL.with_(**small, out="runs/adapters")

base = HFModel(sys.argv[1], dtype="bfloat16") if len(sys.argv) > 1 else tiny_model(context=4096)
adapters = add_adapters(base.module, ["solver", "verifier", "corrector"], rank=4)
models = [HFModel((module, base.tokenizer), name=name) for name, module in adapters.items()]
team = make_team(settings, env.possible_agents, models)  # a policy has its model's name
history = asyncio.run(train(env.game, team, env.problems, settings))
for name, figures in history[-1].policies.items():
    print(name, "completions:", int(figures["completions"]))
