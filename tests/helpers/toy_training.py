"""A tiny model, groups of turns that it has sampled, and digests of its trainer."""

import hashlib
from dataclasses import replace
from typing import Any

import torch
import turns as by_hand
from transformers import Qwen3Config, Qwen3ForCausalLM

from mars_env.seeds import derive_seed
from mars_env.trainers import LocalTrainer, TrainConfig
from mars_env.types import Completion, Group, Turn

VOCABULARY = 12
CONFIG = TrainConfig(learning_rate=3e-3, warmup_updates=3, epochs=2, minibatches=2, token_budget=200, seed=5)


def tiny_model(seed: int = 0) -> Qwen3ForCausalLM:
    """A random Qwen3 with about 10,000 parameters."""
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            max_position_embeddings=64,
            tie_word_embeddings=True,
            initializer_range=0.3,
        )
    )


@torch.no_grad()
def sample(
    model: torch.nn.Module, prompt: tuple[int, ...], n: int, temperature: float, seed: int
) -> list[Completion]:
    """n completions of 1 to 5 tokens (0 ends one)."""
    generator = torch.Generator().manual_seed(seed % 2**63)
    completions = []
    for _ in range(n):
        ids, logprobs = list(prompt), []
        while len(logprobs) < 5 and (not logprobs or ids[-1] != 0):
            logp = (model(input_ids=torch.tensor([ids])).logits[0, -1] / temperature).log_softmax(-1)
            token = int(torch.multinomial(logp.exp(), 1, generator=generator))
            ids.append(token)
            logprobs.append(float(logp[token]))
        tokens, values = tuple(ids[len(prompt) :]), tuple(logprobs)
        text = " ".join(map(str, tokens))
        completions.append(Completion(text, "stop", prompt, tokens, values, temperature))
    return completions


def toy_groups(model: torch.nn.Module, step: int, *, problems: int = 2, size: int = 6) -> list[Group]:
    """Groups of one step; the reward is the fraction of sampled tokens above 5."""
    groups = []
    for problem in range(problems):
        prompt = (1, 2 + problem, 3 + step % 3)[: 2 + problem]
        seed, name = derive_seed("toy", step, problem), f"{step}/{problem}"
        turns = []
        for i, c in enumerate(sample(model, prompt, size, 0.7, seed)):
            reward = sum(token > 5 for token in c.token_ids) / len(c.token_ids)
            turns.append(by_hand.turn(str(i), reward, c, tree=f"{name}#0", group=name, problem=str(problem)))
        groups.append(Group(name, tuple(turns)))
    return groups


class Tokenizer:
    """Enough of a tokenizer for prompts of token ids."""

    eos_token_id = 0

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        return " ".join(map(str, ids))


def rewarded(groups: list[Group]) -> list[Group]:
    """The same groups, with rewards 0 and 1 by turns."""
    return [
        replace(g, turns=tuple(replace(t, reward=float(i % 2)) for i, t in enumerate(g.turns)))
        for g in groups
    ]


def changed(groups: list[Group], **changes: Any) -> list[Group]:
    """The same groups with other completions; what is a function gets the completion."""

    def turn(turn: Turn) -> Turn:
        [old] = turn.action.completions
        new = {name: value(old) if callable(value) else value for name, value in changes.items()}
        return replace(turn, action=replace(turn.action, completions=(replace(old, **new),)))

    return [replace(g, turns=tuple(map(turn, g.turns))) for g in groups]


def logprobs(
    model: torch.nn.Module, completion: Completion, prompt: tuple[int, ...] = (), temperature: float = 0
) -> torch.Tensor:
    """Log-probabilities of a completion's tokens, in plain torch; after another prompt, if one is given."""
    prompt = prompt or completion.prompt_ids
    logits = model(input_ids=torch.tensor([[*prompt, *completion.token_ids]])).logits[0, len(prompt) - 1 : -1]
    table = (logits / (temperature or completion.temperature)).log_softmax(-1)
    return table[range(len(completion.token_ids)), completion.token_ids]


def digest(trainer: LocalTrainer) -> str:
    """A digest of everything that the rest of a run depends on, bit by bit."""
    sha = hashlib.sha256(str(trainer.steps).encode())
    for policy in trainer.policies.values():
        sha.update(f"{policy.version} {policy.updates}".encode())
        for name, value in sorted(policy.model.state_dict().items()):
            sha.update(name.encode() + value.numpy().tobytes())
        for state in policy.optimiser.adamw.state.values():
            for name, value in sorted(state.items()):
                sha.update(name.encode() + value.numpy().tobytes())
    return sha.hexdigest()
