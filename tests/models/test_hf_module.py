"""What is sampled has the probabilities of one pass over its text, whatever the module and its state."""

import asyncio
import json

import pytest
import torch
import transformers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiny_checkpoint import tiny_mixture
from tiny_models import CHARACTERS, build_tokenizer

from mars_env.errors import ConfigError
from mars_env.models import HFModel
from mars_env.models.hf_module import validate_context
from mars_env.types import Sampling

LIMIT = 24
HALF = 4  # of a head's width
ROPES = {
    "default": (64, {}),
    "linear": (64, {"factor": 2.0}),
    "yarn": (64, {"factor": 4.0, "original_max_position_embeddings": LIMIT}),
    "dynamic": (LIMIT, {"factor": 4.0}),
    "longrope": (
        64,
        {
            "original_max_position_embeddings": LIMIT,
            "short_factor": [1.0] * HALF,
            "long_factor": [1.0 + 3 * i for i in range(HALF)],
        },
    ),
}
"""By kind: `max_position_embeddings`, and the parameters."""

RESCALED = ("dynamic", "longrope")


def build(rope):
    """A module with dropout; only Phi-3 has longrope."""
    positions, parameters = ROPES[rope]
    kind = "Phi3" if rope == "longrope" else "Llama"
    sizes = {
        "vocab_size": 3 + len(CHARACTERS), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": positions,
        "initializer_range": 0.5, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1,
        "attention_dropout": 0.5,
    }  # fmt: skip
    if kind == "Phi3":
        sizes |= {"original_max_position_embeddings": LIMIT, "resid_pdrop": 0.5}
    config = getattr(transformers, f"{kind}Config")(
        rope_parameters={"rope_type": rope, "rope_theta": 1e4, **parameters}, **sizes
    )
    torch.manual_seed(0)
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval()


def one_pass(module, completion, temperature):
    """The log-probabilities of a completion in one pass over its text, in plain torch."""
    ids = torch.tensor([[*completion.prompt_ids, *completion.token_ids]])
    with torch.no_grad():
        table = (module(input_ids=ids).logits[0] / temperature).log_softmax(-1)
    start = len(completion.prompt_ids) - 1
    return [float(table[start + i, token]) for i, token in enumerate(completion.token_ids)]


@settings(max_examples=12, deadline=None)
@given(
    rope=st.sampled_from(sorted(ROPES)),
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    rooms=st.lists(st.integers(1, 40), min_size=4, max_size=4),
    training=st.sets(st.integers(0, 20)),
    change=st.sampled_from(["none", "hook", "patch"]),
)
@example(
    "dynamic", [15, 1, 1, 1], [3, 11, 11, 2], set(), "patch"
)  # a row that ended would outgrow the context
def test_sampled_probabilities_are_those_of_one_pass(rope, lengths, rooms, training, change):
    module = build(rope)
    model = HFModel((module, build_tokenizer()))
    parts = list(module.modules())
    for place in training:
        parts[place % len(parts)].training = True
    modes = [part.training for part in parts]
    if change == "hook":  # after it was made, and sampled from
        module.model.layers[1].register_forward_hook(lambda layer, args, hidden: 1.5 * hidden)
    elif change == "patch":
        module.model.norm.forward = lambda hidden: hidden / 32  # logits as large as before, and as exact

    async def play():
        return await asyncio.gather(
            *(
                model.complete([3] * length, 2, Sampling(max_tokens=room, seed=i, temperature=1.5))
                for i, (length, room) in enumerate(zip(lengths, rooms, strict=False))
            )
        )

    completions = [completion for group in asyncio.run(play()) for completion in group]
    assert [part.training for part in parts] == modes
    module.eval()
    for completion in completions:
        assert len(completion.prompt_ids) + len(completion.token_ids) <= model.context
        assert completion.logprobs == pytest.approx(one_pass(module, completion, 1.5), abs=2e-4)


@pytest.mark.parametrize("rope", ROPES)
def test_the_context_ends_where_the_length_of_a_text_would_change_its_positions(rope):
    module, limited = build(rope), rope in RESCALED
    assert HFModel((module, None)).context == (LIMIT if limited else 64)
    assert HFModel((module, None), context=8).context == 8
    config = module.config
    validate_context(config, LIMIT)
    if limited:
        with pytest.raises(ConfigError):
            HFModel((module, None), context=LIMIT + 1)
        with pytest.raises(ConfigError):
            validate_context(config, LIMIT + 1)
    else:
        validate_context(config, LIMIT + 1)


def test_kinds_of_attention_by_layer_have_the_shortest_limit():
    config = transformers.Gemma3TextConfig(max_position_embeddings=64)
    validate_context(config, 10**6)
    config.rope_parameters["full_attention"] = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    with pytest.raises(ConfigError):
        validate_context(config, 65)


def test_models_that_ignore_their_cache_or_the_padding_are_refused():
    """Their samples would not depend on the prompt."""
    sizes = {"vocab_size": 16, "hidden_size": 16, "num_hidden_layers": 2}
    kinds = {
        "Mamba": {"state_size": 4, "initializer_range": 0.5},
        "Rwkv": {"attention_hidden_size": 16},
        "RecurrentGemma": {"num_attention_heads": 4, "intermediate_size": 32, "lru_width": 16, "head_dim": 4},
    }
    for kind, more in kinds.items():
        torch.manual_seed(0)
        config = getattr(transformers, f"{kind}Config")(**sizes, **more)
        with pytest.raises(ConfigError):
            HFModel((getattr(transformers, f"{kind}ForCausalLM")(config).eval(), None))


def test_experts_whose_checkpoint_asks_for_their_training_loss_are_sampled(tmp_path):
    folder = tiny_mixture(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "output_router_logits": True}))
    assert HFModel(folder, dtype="float32").logprobs((1, 2, 3), (4, 5), 1.0)
