import asyncio
import copy
import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_team import flat
from transformers import Gemma2Config, Gemma2ForCausalLM
from turns import turn

from mars_env.errors import ConfigError, MarsError, ModelError
from mars_env.models.hf import HFModel
from mars_env.rollout import UpdateBatch
from mars_env.trainers import LocalTrainer, Policy, TrainConfig, fit
from mars_env.trainers.local import MOST_SKIPPED
from mars_env.types import Group, Sampling


def trainer(toy, config=None, **others):
    return LocalTrainer(
        {"mars": Policy(toy.tiny_model()), **others}, config or TrainConfig(learning_rate=1e-3)
    )


@pytest.fixture
def groups(toy):
    """Two groups with rewards 1 and 0 by turns, sampled at temperature 0.7 from the toy model."""
    return toy.rewarded(toy.toy_groups(toy.tiny_model(), 0))


async def test_importance_weights_are_one_at_any_temperature_with_the_samples_of_hfmodel(toy):
    model = toy.tiny_model()
    hf = HFModel((model, toy.Tokenizer()), name="mars")
    turns = []
    for i, temperature in enumerate((0.7, 1.0, 1.6)):
        sampling = Sampling(temperature=temperature, max_tokens=9, seed=i)
        for j, completion in enumerate(await hf.complete([1, 2, 3 + i], 6, sampling)):
            turns.append(turn(f"{i}.{j}", float(j % 2), completion))
    config = TrainConfig(learning_rate=0.0, token_budget=60)
    sampled = [Group("g", tuple(turns))]
    figures = LocalTrainer({"mars": Policy(model)}, config).step(sampled).policies["mars"]
    assert figures["importance"] == pytest.approx(1, abs=1e-5)
    assert figures["rollout_gap"] < 1e-5
    wrong = toy.changed(sampled, temperature=1.0)
    assert LocalTrainer({"mars": Policy(model)}, config).step(wrong).policies["mars"]["rollout_gap"] > 0.05


def test_one_update_is_exactly_the_policy_gradient_step(toy, groups):
    """Against plain torch: one sequence at a time, full logits, the loss written out, torch's own AdamW."""
    mine = trainer(toy, TrainConfig(learning_rate=1e-2, max_grad_norm=1e9, token_budget=64))
    figures = mine.step(groups).policies["mars"]
    model = toy.tiny_model()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    tokens = sum(len(t.action.completions[0].token_ids) for g in groups for t in g.turns)
    loss, surrogate = torch.tensor(0.0), 0.0
    for g in groups:
        rewards = torch.tensor([t.reward for t in g.turns])
        advantages = (rewards - rewards.mean()) / rewards.std()
        for t, advantage in zip(g.turns, advantages, strict=True):
            c = t.action.completions[0]
            loss = loss - advantage * toy.logprobs(model, c).sum() / tokens
            surrogate -= advantage.item() * len(c.token_ids) / tokens  # all ratios are 1
    loss.backward()
    norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
    optimiser.step()
    assert figures["grad_norm"] == pytest.approx(norm.item(), rel=1e-4)
    assert figures["loss"] == pytest.approx(surrogate, abs=1e-5)
    assert figures["ratio"] == 1.0
    assert figures["rollout_gap"] < 1e-5
    assert figures["tokens"] == tokens
    expected = flat(model)
    moved = (expected - flat(toy.tiny_model())).abs().max()
    assert (flat(mine.policies["mars"].model) - expected).abs().max() < 1e-3 * moved


def test_only_the_named_roles_are_trained(toy, groups):
    others = toy.rewarded(toy.toy_groups(toy.tiny_model(), 1))
    checked = [replace(g, turns=tuple(replace(t, agent="verifier_0") for t in g.turns)) for g in others]
    both = groups + checked
    alone, partial = trainer(toy), trainer(toy, TrainConfig(learning_rate=1e-3, train_roles=("solver",)))
    alone.step(groups)
    metrics = partial.step(both)
    assert toy.digest(alone) == toy.digest(partial)
    assert metrics.roles["verifier"]["trained"] == 0
    assert metrics.roles["solver"]["trained"] == metrics.roles["solver"]["turns"] == 12
    none = trainer(toy, TrainConfig(learning_rate=1e-3, train_roles=("corrector",)))
    before = flat(none.policies["mars"].model)
    assert none.step(both).policies == {"mars": {}}
    assert none.policies["mars"].version == 0
    assert torch.equal(before, flat(none.policies["mars"].model))


@pytest.mark.parametrize(("way", "share"), [("count", 1 / 8), ("drop", 1.0)])
@pytest.mark.parametrize("kl", [0.0, 1e-9])
def test_uniform_groups_count_in_the_denominators(toy, groups, way, share, kl):
    """Seven of them beside one that teaches, with completions of the same lengths."""
    one = groups[0]
    turns = [replace(t, reward=1.0) for t in one.turns]
    uniform = [Group(f"u{n}", tuple(replace(t, tree_id=f"u{n}") for t in turns)) for n in range(7)]
    config = TrainConfig(uniform_groups=way, kl_coefficient=kl)
    alone, beside = (
        LocalTrainer({"mars": Policy(toy.tiny_model(), reference=toy.tiny_model(1))}, config)
        .step(batch)
        .policies["mars"]
        for batch in ([one], [one, *uniform])
    )
    assert beside["grad_norm"] == pytest.approx(share * alone["grad_norm"], rel=1e-4)
    trained = 1 if way == "drop" or not kl else 8  # metrics are of the rows that have a gradient
    assert set(beside) == set(alone)
    for name in ("completions", "tokens"):
        assert beside[name] == trained * alone[name]
    for name in {"ratio", "clipped", "entropy", "rollout_gap", "kl"} & set(alone):
        assert beside[name] == pytest.approx(alone[name], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_identical_weights_in_bfloat16_clip_no_token(toy, ratio):
    model = toy.tiny_model().bfloat16()
    sampled = toy.rewarded(toy.toy_groups(model, 0))
    policy = Policy(copy.deepcopy(model).float())
    figures = LocalTrainer({"mars": policy}, TrainConfig(ratio=ratio)).step(sampled).policies["mars"]
    assert figures["rollout_gap"] > 1e-4  # beyond the clip range of GSPO
    assert figures["clipped"] == 0 and figures["ratio"] == 1
    assert figures["importance"] == pytest.approx(1, abs=0.05)


def test_a_token_that_was_sampled_as_almost_impossible_moves_no_mean(toy, groups):
    def rare(completion):
        return (-60.0, *completion.logprobs[1:])

    figures = trainer(toy).step(toy.changed(groups, logprobs=rare)).policies["mars"]
    assert figures["ratio"] == 1 and 1 < figures["importance"] <= 2


def test_on_policy_samples_have_no_weight(toy, groups):
    """Whatever the log-probabilities of the samples say."""
    wrong = toy.changed(groups, logprobs=lambda c: (-1.0,) * len(c.token_ids))
    losses = []
    for some in (groups, wrong):
        tiny = LocalTrainer({"mars": Policy(toy.tiny_model())}, on_policy=True)
        figures = tiny.step(some).policies["mars"]
        assert figures["importance"] == 1
        losses.append(figures["loss"])
    assert losses[0] == losses[1]
    assert trainer(toy).step(wrong).policies["mars"]["importance"] != 1


def test_norms_do_not_decay(toy, groups):
    def moved(decay):
        policy = Policy(toy.tiny_model())
        before = {name: p.detach().clone() for name, p in policy.model.named_parameters()}
        config = TrainConfig(learning_rate=1e-3, weight_decay=decay)
        LocalTrainer({"mars": policy}, config).step(groups)
        return {name: p.detach() - before[name] for name, p in policy.model.named_parameters()}

    plain, decayed = moved(0.0), moved(10.0)
    assert {name for name in plain if torch.equal(plain[name], decayed[name])} == {
        name for name in plain if "norm" in name
    }


def test_gspo_importance_weights_and_dmmpt_enter_the_loss(toy, groups):
    plain = trainer(toy).step(groups).policies["mars"]
    gspo = TrainConfig(ratio="sequence")
    figures = trainer(toy, gspo).step(groups).policies["mars"]
    assert figures["importance"] == pytest.approx(1, abs=1e-4)
    assert figures["vetoed"] == 0
    masked = trainer(toy, TrainConfig(dmmpt_threshold=1e-9)).step(groups).policies["mars"]
    assert 0 < masked["mastered"] < 1
    assert masked["loss"] > plain["loss"]  # only the negative advantages are left
    # a rollout engine that claims to have sampled everything with certainty: every completion is vetoed
    certain = toy.changed(groups, logprobs=lambda c: (0.0,) * len(c.token_ids))
    vetoed = trainer(toy, TrainConfig(tis_veto=1.0)).step(certain).policies["mars"]
    assert vetoed["vetoed"] == 1
    assert vetoed["grad_norm"] == 0


def test_warm_up_and_clipping_of_the_gradient(toy, groups):
    tiny = trainer(toy, TrainConfig(learning_rate=1e-2, warmup_updates=4, minibatches=2, max_grad_norm=1e-3))
    rates = [tiny.step(groups).policies["mars"]["learning_rate"] for _ in range(3)]
    assert rates == pytest.approx([5e-3, 1e-2, 1e-2])
    total = torch.cat([p.grad.flatten() for p in tiny.policies["mars"].model.parameters()]).norm()
    assert total == pytest.approx(1e-3, rel=1e-3)


def pair_of(toy, groups):
    """A trainer of two policies, and the groups with every second turn of the other one."""
    policies = {"mars": Policy(toy.tiny_model()), "moon": Policy(toy.tiny_model(1))}
    mixed = [
        Group(g.id, tuple(replace(t, policy=("mars", "moon")[i % 2]) for i, t in enumerate(g.turns)))
        for g in groups
    ]
    return LocalTrainer(policies, TrainConfig(learning_rate=1e-2)), mixed


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_an_update_that_is_not_finite_is_left_out_and_counted(toy, groups, bad):
    """The other policy is trained as ever; ten such updates in a row end the run after their step."""
    pair, mixed = pair_of(toy, groups)
    sound, _ = pair_of(toy, groups)
    broken = pair.policies["moon"]
    with torch.no_grad():
        broken.model.model.norm.weight[0] = bad
    before = flat(broken.model)
    figures = pair.step(mixed).policies
    assert figures["moon"]["skipped"] == 1 and figures["moon"]["updates"] == 0
    assert "skipped" not in figures["mars"] and sound.step(mixed).policies["mars"] == figures["mars"]
    assert torch.equal(flat(sound.policies["mars"].model), flat(pair.policies["mars"].model))
    assert torch.allclose(before, flat(broken.model), equal_nan=True, rtol=0, atol=0)
    assert (broken.version, broken.updates, pair.policies["mars"].version) == (0, 0, 1)
    for _ in range(MOST_SKIPPED - 2):
        pair.step(mixed)
    with pytest.raises(MarsError):
        pair.step(mixed)
    assert pair.steps == pair.policies["mars"].version == MOST_SKIPPED


def test_a_finite_update_ends_the_row_of_those_that_are_not(toy, groups):
    tiny = trainer(toy)
    policy = tiny.policies["mars"]
    weight = policy.model.model.norm.weight
    for _ in range(2):
        for _ in range(MOST_SKIPPED - 1):
            with torch.no_grad():
                weight[0] = float("nan")
            tiny.step(groups)
        with torch.no_grad():
            weight[0] = 1.0
        tiny.step(groups)
        assert policy.skipped == 0
    assert (tiny.steps, policy.version) == (2 * MOST_SKIPPED, 2)


def test_no_policy_is_trained_where_another_one_cannot_be(toy, groups):
    """A token of another vocabulary is found before the first update."""
    pair, mixed = pair_of(toy, groups)
    before = {name: flat(policy.model) for name, policy in pair.policies.items()}

    def foreign(turn):
        [first] = turn.action.completions
        completion = replace(first, token_ids=(10**6, *first.token_ids[1:]))
        action = replace(turn.action, completions=(completion,))
        return replace(turn, action=action) if turn.policy == "moon" else turn

    with pytest.raises(ConfigError):
        pair.step([Group(group.id, tuple(map(foreign, group.turns))) for group in mixed])
    assert pair.steps == 0
    assert all(torch.equal(flat(pair.policies[name].model), weights) for name, weights in before.items())


FAULTS = {
    "no_tokens": {"token_ids": ()},
    "no_logprobs": {"logprobs": ()},
    "bad_logprobs": {"logprobs": lambda completion: (math.nan,) * len(completion.logprobs)},
    "greedy": {"temperature": 0.0},
}


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.tuples(st.integers(0, 1), st.integers(0, 5)), st.sampled_from([*FAULTS]), max_size=9)
)
def test_random_faults_of_a_step_cost_themselves_alone(toy, groups, faults):
    """Policies without a fault are trained as ever, the others as if their faulty turns had no reward."""

    def step(change):
        """The policies after a step on the groups with some turns changed, and its metrics."""
        one = LocalTrainer(
            {"mars": Policy(toy.tiny_model()), "moon": Policy(toy.tiny_model(1))},
            TrainConfig(learning_rate=1e-2),
        )
        mixed = [
            replace(g, turns=tuple(change(replace(t, policy=policy), (i, j)) for j, t in enumerate(g.turns)))
            for i, (policy, g) in enumerate(zip(one.policies, groups, strict=True))
        ]
        return one.step(mixed).flat(), [flat(policy.model) for policy in one.policies.values()]

    def fault(turn, place):
        [group] = toy.changed([Group("g", (turn,))], **FAULTS.get(faults.get(place), {}))
        return group.turns[0]

    figures, weights = step(fault)
    _, unknown = step(lambda turn, place: replace(turn, reward=None) if place in faults else turn)
    _, calm = step(lambda turn, place: turn)
    counts = Counter(faults.values())
    assert {name: figures.get(f"unscorable/{name}", 0) for name in FAULTS} == {n: counts[n] for n in FAULTS}
    for number, trained in enumerate(weights):
        assert torch.equal(trained, unknown[number])
        assert torch.equal(trained, calm[number]) or number in {group for group, _ in faults}


def test_a_step_without_a_turn_that_can_be_scored_ends_the_run(toy, groups):
    one = trainer(toy)
    with pytest.raises(ModelError):
        one.step(toy.changed(groups, **FAULTS["no_tokens"]))
    assert one.steps == 0


def test_unfit_policies_are_refused(toy):
    model = toy.tiny_model()
    for policies in [
        {},
        {"a": Policy(model), "b": Policy(model)},
        {"a/b": Policy(model)},
        {"a": Policy(model, reference=model)},
        {"a": Policy(model), "b": Policy(toy.tiny_model(1), reference=model)},
        {"a": Policy(copy.deepcopy(model).bfloat16())},
        {"a": Policy(copy.deepcopy(model).requires_grad_(False))},
    ]:
        with pytest.raises(ConfigError):
            LocalTrainer(policies)
    with pytest.raises(ConfigError):
        LocalTrainer({"a": Policy(model)}, TrainConfig(kl_coefficient=0.1))
    sizes = dict.fromkeys(("hidden_size", "intermediate_size", "head_dim"), 8)
    counts = dict.fromkeys(("num_hidden_layers", "num_attention_heads", "num_key_value_heads"), 1)
    capped = Gemma2Config(vocab_size=12, final_logit_softcapping=0.01, **sizes, **counts)
    with pytest.raises(ConfigError):
        LocalTrainer({"a": Policy(Gemma2ForCausalLM(capped))})


def test_fit_refreshes_logs_and_closes_also_when_a_rollout_fails(toy, groups):
    tiny, seen = trainer(toy), []

    class Recorder:
        def start(self, step):
            seen.append(("start", step))

        def log(self, step, values):
            seen.append(("log", step, values["role/solver/turns"]))

        def close(self):
            seen.append(("close",))

    async def batches(done):
        for step in (0, 1):
            yield UpdateBatch(step, tuple(groups))
        raise MarsError("the server is gone")

    async def refresh(policies):
        seen.append(("refresh", policies["mars"].version))

    with pytest.raises(MarsError):
        asyncio.run(fit(tiny, batches, 5, refresh=refresh, loggers=[Recorder()]))
    assert seen == [
        ("start", 0),
        ("refresh", 0),
        ("refresh", 1),
        ("log", 1, 12.0),
        ("refresh", 2),
        ("log", 2, 12.0),
        ("close",),
    ]
