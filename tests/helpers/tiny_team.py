"""Teams of random character models with a few thousand weights, which search in trees and can be trained."""

import torch

import mars_env
from mars_env.agents.roles import RoleAgent
from mars_env.loggers import Logger
from mars_env.models import tiny_model
from mars_env.trainers import MARS2, Overlong, RunSettings, make_team
from mars_env.types import Sampling

SAMPLING = Sampling(temperature=1.0, max_tokens=6)
LOSS = MARS2.train.model_copy(update={"learning_rate": 3e-3, "overlong": Overlong(limit=6, buffer=2)})


def tiny(name, seed=0, positions=256):
    return tiny_model(seed=seed, width=16, context=positions, name=name)


def brief(name, model):
    """An agent with a prompt of a few characters."""
    prompt = "{{ problem[:20] }}|{{ solution }}|"
    return RoleAgent(model, sampling=SAMPLING, prompt=prompt, thinking=None)


def digits(turn, path, problem):
    """A random model solves nothing, so the reward is the share of digits."""
    return sum(letter.isdigit() for letter in turn.text) / 6


def environment(agents, **settings):
    return mars_env.make(
        "arithmetic-tree-search", schedule="training", agents=agents, rewards={"solver": digits}, **settings
    )


def settings(**changes):
    small = {"steps": 2, "problems_per_step": 3, "seed": 3, "rollouts": None, "sampling": SAMPLING}
    return RunSettings(**{**small, "train": LOSS, **changes})


def made(agents, names, nodes=8, **changes):
    env = environment(agents, nodes=nodes)
    wanted = settings(**changes)
    models = [tiny(name, seed) for seed, name in enumerate(names)]
    return env, make_team(wanted, env.possible_agents, models, agent=brief), wanted


class Rows(Logger):
    """A logger that keeps its rows."""

    def __init__(self):
        self.rows = []

    def log(self, step, values):
        self.rows.append(values)


def models_of(players):
    """The sampling models, by policy."""
    return {agent.policy: agent.model for agent in players.agents.values()}


def flat(model):
    return torch.cat([p.detach().flatten().clone() for p in model.parameters()])


def weights(players):
    return {name: flat(policy.model) for name, policy in players.policies.items()}
