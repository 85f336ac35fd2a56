import pytest
import torch
from messages import raises
from transformers import AutoModelForCausalLM, MambaConfig, Qwen3MoeConfig
from turns import turn

from mars_env.errors import ConfigError
from mars_env.models import tiny_model
from mars_env.trainers import LocalTrainer, Policy, TrainConfig
from mars_env.trainers.lora import LoRASettings, add_adapters
from mars_env.trainers.memory import GIB, Shape, _Peak, described, estimate
from mars_env.types import Completion, Group

CONFIG = tiny_model(width=128, context=256).module.config
WORDS = CONFIG.vocab_size
SHAPE = Shape(prompt=32, sampled=32, rows=4)


def rows():
    """Two micro-batches' worth of rows that share nothing."""
    draw = torch.Generator().manual_seed(0)
    for number in range(2 * SHAPE.rows):
        ids = torch.randint(0, WORDS, (SHAPE.prompt + SHAPE.sampled,), generator=draw).tolist()
        ids[0] = number
        read, sampled = tuple(ids[: SHAPE.prompt]), tuple(ids[SHAPE.prompt :])
        completion = Completion("", "stop", read, sampled, (-1.0,) * SHAPE.sampled)
        yield turn(str(number), float(number % 2), completion, policy="one")


@pytest.mark.parametrize(
    ("settings", "lora"),
    [
        ({}, None),
        ({"gradient_checkpointing": True, "most_logits": 20 * WORDS}, None),
        ({"autocast": True}, None),
        ({"gradient_checkpointing": True}, LoRASettings(rank=4)),
    ],
)
def test_the_estimate_is_what_a_step_takes(settings, lora):
    """Within 15 percent; AdamW's own temporaries are after the pass, and smaller."""
    train = TrainConfig(
        token_budget=SHAPE.rows * (SHAPE.prompt + SHAPE.sampled), shared_prefixes=False, **settings
    )
    found = estimate(CONFIG, train, SHAPE, lora=lora)
    model = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.float32)
    if lora:
        model = add_adapters(model, ["adapter"], lora)["adapter"]
    trainer = LocalTrainer({"one": Policy(model)}, train)
    group = [Group("g", tuple(rows()))]
    trainer.step(group)  # makes the moments
    peak = _Peak()
    with peak:
        trainer.step(group)
    assert found.update == pytest.approx(peak.most, rel=0.15)


def test_weights_moments_and_copies_are_counted():
    full, offloaded = (estimate(CONFIG, TrainConfig(offload=offload), SHAPE) for offload in (False, True))
    assert full.weights == 4 * full.parameters and full.optimiser == 8 * full.parameters
    assert offloaded.weights == 2 * full.parameters and offloaded.optimiser == 0
    assert offloaded.host == 16 * full.parameters
    assert offloaded.peak < full.peak
    assert full.cache == 2 * 2 * 4 * 32 * SHAPE.rows * (SHAPE.prompt + SHAPE.sampled) * 4


def test_the_report_says_what_does_not_fit():
    found = estimate(CONFIG, TrainConfig(), SHAPE)
    assert "does not fit" in described(found, 1024) and "does not fit" not in described(found, GIB)


def test_an_architecture_that_cannot_be_run_without_values_is_an_error():
    experts = Qwen3MoeConfig(vocab_size=WORDS, hidden_size=64, moe_intermediate_size=16, num_hidden_layers=1)
    recurrent = MambaConfig(vocab_size=WORDS, hidden_size=64, num_hidden_layers=1)
    for config in (experts, recurrent):
        with raises(ConfigError):
            estimate(config, TrainConfig(), SHAPE)
