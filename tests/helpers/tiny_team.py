"""Teams of random character models with a few thousand weights, which search in trees and can be trained."""

import string

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

import mars_env
from mars_env.agents.roles import RoleAgent
from mars_env.models.hf import HFModel
from mars_env.trainers.config import Overlong
from mars_env.trainers.recipes import MARS2, RunSettings
from mars_env.trainers.team import make_team
from mars_env.types import Sampling

SAMPLING = Sampling(temperature=1.0, max_tokens=6)
LOSS = MARS2.train.model_copy(update={"learning_rate": 3e-3, "overlong": Overlong(limit=6, buffer=2)})
PIECES = ["<pad>", "<end>", *string.printable]


def tokenizer():
    core = Tokenizer(models.WordLevel({p: i for i, p in enumerate(PIECES)}, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<end>")


def tiny(name, seed=0, positions=256):
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(PIECES), hidden_size=16, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=positions,
        tie_word_embeddings=True, eos_token_id=1, pad_token_id=0, initializer_range=0.3,
    )  # fmt: skip
    return HFModel((Qwen3ForCausalLM(config), tokenizer()), name=name)


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


def made(agents, names, **changes):
    env = environment(agents)
    wanted = settings(**changes)
    models = [tiny(name, seed) for seed, name in enumerate(names)]
    return env, make_team(wanted, env.possible_agents, models, agent=brief), wanted


class Rows:
    """A logger that keeps its rows."""

    def __init__(self):
        self.rows = []

    def start(self, step):
        """As a logger."""

    def log(self, step, values):
        self.rows.append(values)

    def close(self):
        """As a logger."""


def models_of(players):
    """The sampling models, by policy."""
    return {agent.policy: agent.model for agent in players.agents.values()}


def flat(model):
    return torch.cat([p.detach().flatten().clone() for p in model.parameters()])


def weights(players):
    return {name: flat(policy.model) for name, policy in players.policies.items()}
