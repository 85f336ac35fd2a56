from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen3Config
from transformers import logging as transformers_logging
from turns import turn

from mars_env.trainers import LocalTrainer, Policy, forward, losses
from mars_env.trainers.batches import collate
from mars_env.trainers.config import Preferences, TrainConfig
from mars_env.trainers.forward import cut
from mars_env.trainers.lora import add_adapters
from mars_env.trainers.prefixes import can_share, grow
from mars_env.trainers.samples import turn_samples
from mars_env.types import Completion, Group

WORDS = 9
SIZES = {"vocab_size": WORDS, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}

token = st.integers(0, WORDS - 1)
rows = st.recursive(  # a list of rows that begin alike, at any depth
    st.lists(token, min_size=1, max_size=6).map(lambda row: [row]),
    lambda inner: st.tuples(st.lists(token, max_size=12), st.lists(inner, min_size=1, max_size=4)).map(
        lambda made: [made[0] + row for branch in made[1] for row in branch]
    ),
    max_leaves=10,
)


@pytest.fixture(scope="module", autouse=True)
def quiet():
    transformers_logging.set_verbosity_error()


def new_model(seed=0, config=Qwen3Config, **others):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        heads = HEADS | ({"head_dim": 4} if config is Qwen3Config else {})
        model = AutoModelForCausalLM.from_config(config(**SIZES, **heads, **others))
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def groups_of(texts, policies=("one",), temperature=0.8):
    """Each row a turn: its first half is read, the rest sampled, with log-probabilities a little off."""
    draw = np.random.default_rng(sum(map(len, texts)))
    turns = []
    for number, row in enumerate(texts):
        read = max(1, len(row) // 2)
        logprobs = tuple(-draw.uniform(1, 3, len(row) - read))
        completion = Completion("", "stop", tuple(row[:read]), tuple(row[read:]), logprobs, temperature)
        policy = policies[number % len(policies)]
        turns.append(turn(str(number), float(draw.uniform()), completion, policy=policy))
    return [Group("g", tuple(turns))]


def gradients(policy):
    return torch.cat([p.grad.flatten() for p in policy.model.parameters() if p.grad is not None])


def stepped(groups, config, *, shared, make=None, **options):
    """The metrics of a step and the gradient, of each policy."""
    names = {turn.policy for group in groups for turn in group.turns}
    made = {name: make(i) for i, name in enumerate(sorted(names))} if make else None
    policies = made or {
        name: Policy(new_model(i), reference=new_model(7)) for i, name in enumerate(sorted(names))
    }
    chosen = config.model_copy(update={"shared_prefixes": shared})
    trainer = LocalTrainer(policies, chosen, **options)
    metrics = trainer.step(groups).policies
    return {name: (metrics[name], gradients(policies[name])) for name in policies}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, (metrics, gradient) in one.items():
        assert other[name][0] == pytest.approx(metrics, rel=1e-4, abs=1e-5)
        scale = max(1.0, float(gradient.abs().max()))
        assert (other[name][1] - gradient).abs().max() < 1e-5 * scale


@given(rows, st.integers(1, 20))
def test_every_row_is_in_the_forest_and_no_token_more_often_than_it_must_be(texts, least):
    forest = grow([np.array(row) for row in texts], least)
    for row, places in zip(texts, forest.places, strict=True):
        own = places[: len(row)]
        assert forest.ids[own].tolist() == row
        assert forest.positions[own].tolist() == list(range(len(row)))
    assert len(forest.ids) <= sum(map(len, texts))
    if least == 1:
        assert len(forest.ids) == len({tuple(row[: i + 1]) for row in texts for i in range(len(row))})
    assert sorted(forest.order.tolist()) == sorted(set(forest.order.tolist()))


CONFIGS = {
    "token": TrainConfig(kl_coefficient=0.1, token_budget=60, clip_high=5.0),
    "sequence": TrainConfig(ratio="sequence", tis_veto=None, kl_coefficient=0.1, clip_high=1.0),
    "leave_one_out": TrainConfig(advantage="leave_one_out", aggregation="sequence-mean", most_logits=40),
    "mean": TrainConfig(advantage="mean_centred", dmmpt_threshold=0.9),
    "epochs": TrainConfig(epochs=2, minibatches=2, kl_coefficient=0.1, learning_rate=0.0),
    "checkpointed": TrainConfig(gradient_checkpointing=True, most_logits=WORDS, kl_coefficient=0.1),
}


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=8, deadline=None)
@given(texts=rows.map(lambda t: [row for row in t if len(row) > 1]).filter(lambda t: len(t) > 3))
def test_losses_gradients_and_metrics_are_those_of_every_row_read_in_full(name, texts):
    groups = groups_of(texts, ("one", "two"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward, "grow", partial(grow, least=1))
        found = [stepped(groups, CONFIGS[name], shared=shared) for shared in (False, True)]
    assert_same(*found)


ALIKE = [[1, 2, 3, 4, 5, 6, 7, 8] * 3 + [number, 3, 1, number, 5] * (1 + number % 3) for number in range(8)]


def test_adapters_on_one_base_share_too():
    def step(shared):
        adapters = add_adapters(new_model(), ["one", "two"], rank=2)
        with torch.no_grad():
            for adapter in adapters.values():
                for parameter in adapter.parameters():
                    parameter.add_(0.1)
        names = sorted(adapters)
        config = TrainConfig(kl_coefficient=0.1, gradient_checkpointing=shared)
        return stepped(
            groups_of(ALIKE, ("one", "two")),
            config,
            shared=shared,
            make=lambda i: Policy(adapters[names[i]], reference=adapters[names[i]].base),
        )

    assert_same(step(False), step(True))


def test_preferences_share_too():
    groups = groups_of([[1, 2, 3, 4, 5, 6, 7, 8] * 2 + [number] * 16 for number in range(6)])
    preferences = Preferences(beta=0.5)
    found = [
        stepped(groups, TrainConfig(token_budget=70), shared=shared, preferences=preferences)
        for shared in (False, True)
    ]
    assert_same(*found)


@pytest.mark.parametrize(
    ("config", "others", "shares"),
    [
        (Qwen3Config, {}, True),
        (LlamaConfig, {}, True),
        (LlamaConfig, {"attn_implementation": "eager"}, True),
        (MistralConfig, {"sliding_window": 8}, False),
    ],
)
def test_models_that_cannot_share_read_every_row(config, others, shares):
    model = new_model(config=config, **others)
    before = model.config._attn_implementation
    assert can_share(model) is shares
    assert model.config._attn_implementation == before
    trainer = LocalTrainer({"one": Policy(model)})
    assert trainer.policies["one"].shares is shares
    assert trainer.step(groups_of(ALIKE)).policies["one"]["tokens"] > 0


def test_a_budget_counts_shared_tokens_once():
    samples = turn_samples(groups_of([[1] * 80 + [number] * 80 for number in range(8)]), TrainConfig())
    samples = [
        replace(each, completion_ids=each.completion_ids[:4], logprobs=(-1.0,) * 4) for each in samples
    ]
    batch = collate(samples)
    assert [len(cuts) for cuts in cut(batch, 200)] == [2, 2, 2, 2]
    assert [len(cuts) for cuts in cut(batch, 200, shared=True)] == [8]
    pairs = list(cut(batch, 110, unit=2, shared=True))
    assert sorted(torch.cat(pairs).tolist()) == list(range(8))
    assert all(set(each.tolist()) == {i ^ 1 for i in each.tolist()} for each in pairs)


def test_the_head_is_in_float32_under_autocast():
    """Else rounding alone would leave GSPO's clip range."""
    seen = []

    def heard(logits, *others, whole=losses.logprobs_and_entropies):
        seen.append(logits.detach())
        return whole(logits, *others)

    trainer = LocalTrainer({"one": Policy(new_model())}, TrainConfig(autocast=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses, "logprobs_and_entropies", heard)
        trainer.step(groups_of(ALIKE))
    assert {logits.dtype for logits in seen} == {torch.float32}
    values = torch.cat([logits.flatten() for logits in seen])
    assert not torch.equal(values, values.bfloat16().float())
