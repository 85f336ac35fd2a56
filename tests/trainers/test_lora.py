"""LoRA adapters: several policies on one base model."""

import asyncio
from dataclasses import replace

import pytest
import torch
from tiny_team import flat
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from mars_env.models.hf import HFModel
from mars_env.rollout import UpdateBatch
from mars_env.trainers import LocalTrainer, Policy, TrainConfig, fit
from mars_env.trainers.lora import add_adapters
from mars_env.types import Group, Sampling

pytest.importorskip("peft", reason="adapters need the extra lora")

ROLES = ("solver", "verifier")
RANK = 4
IDS = torch.tensor([[1, 2, 3, 4]])


def pair(toy, seed=0):
    return add_adapters(toy.tiny_model(), ROLES, RANK, seed=seed)


def trainer_of(adapters, **settings):
    policies = {role: Policy(adapter) for role, adapter in adapters.items()}
    return LocalTrainer(policies, TrainConfig(learning_rate=1e-2, **settings))


def weights(adapters):
    return {role: flat(adapter) for role, adapter in adapters.items()}


def stir(adapter, seed=0):
    """Give an adapter an effect, as training would."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)


def groups_of_two(toy, model, step=0):
    """Groups in which solver and verifier act on the same inputs; rewards 1 and 0 by turns."""
    made = []
    for group in toy.toy_groups(model, step):
        roles = [ROLES[i // 2 % 2] for i in range(len(group.turns))]
        turns = [
            replace(turn, agent=f"{role}_0", policy=role, reward=float(i % 2))
            for i, (turn, role) in enumerate(zip(group.turns, roles, strict=True))
        ]
        made.append(Group(group.id, tuple(turns)))
    return made


def test_at_first_adapters_compute_what_the_base_does_and_then_each_its_own(toy):
    plain = toy.tiny_model()(input_ids=IDS).logits
    solver, verifier = pair(toy).values()
    for adapter in (solver, verifier, solver.base):
        assert torch.equal(adapter(input_ids=IDS).logits, plain)
    stir(solver)
    changed = solver(input_ids=IDS).logits
    assert (changed - plain).abs().max() > 0.05
    assert torch.equal(verifier(input_ids=IDS).logits, plain)
    assert torch.equal(solver.base(input_ids=IDS).logits, plain)
    assert torch.equal(solver(input_ids=IDS).logits, changed)
    hidden = solver.get_decoder()(input_ids=IDS, use_cache=False).last_hidden_state
    assert torch.allclose(solver.get_output_embeddings()(hidden), changed, atol=1e-6)


def test_initial_weights_derive_from_seed_and_name_and_leave_the_global_generator_alone(toy):
    torch.manual_seed(7)
    first = pair(toy)  # tiny_model seeds the generator itself, with 0
    drawn = torch.rand(3)
    toy.tiny_model()
    assert torch.equal(drawn, torch.rand(3))
    again = add_adapters(toy.tiny_model(), ROLES[::-1], RANK)
    for role in ROLES:
        assert torch.equal(flat(first[role]), flat(again[role]))
    assert not torch.equal(flat(first["solver"]), flat(first["verifier"]))
    assert not torch.equal(flat(first["solver"]), flat(pair(toy, seed=1)["solver"]))


def test_each_policy_learns_from_its_own_turns_and_the_base_from_none(toy):
    adapters = pair(toy)
    base = [p.detach().clone() for n, p in adapters["solver"].base.named_parameters() if "lora" not in n]
    before, trainer = weights(adapters), trainer_of(adapters)
    groups = groups_of_two(toy, adapters["solver"])
    solvers = [Group(g.id, tuple(t for t in g.turns if t.policy == "solver")) for g in groups]
    assert trainer.step(solvers).policies["verifier"] == {}
    assert torch.equal(flat(adapters["verifier"]), before["verifier"])
    assert not torch.equal(flat(adapters["solver"]), before["solver"])
    trainer.step(groups)
    assert not torch.equal(flat(adapters["verifier"]), before["verifier"])
    after = [p for n, p in adapters["solver"].base.named_parameters() if "lora" not in n]
    assert all(torch.equal(old, new) for old, new in zip(base, after, strict=True))


async def test_hfmodel_samples_with_the_adapter_of_each_role(toy):
    adapters = pair(toy)
    stir(adapters["solver"], 1)
    stir(adapters["verifier"], 2)
    models = {role: HFModel((a, toy.Tokenizer()), name=role) for role, a in adapters.items()}
    sampling = Sampling(temperature=0.8, max_tokens=6, seed=3)
    sampled = await asyncio.gather(  # in one wave, and the models' turns in it alternate
        *(models[ROLES[i % 2]].complete([1, 2, 3 + i // 2], 3, sampling) for i in range(6))
    )
    for i, completions in enumerate(sampled):
        own, other = models[ROLES[i % 2]], models[ROLES[1 - i % 2]]
        for c in completions:
            assert own.logprobs(c.prompt_ids, c.token_ids, 0.8) == pytest.approx(c.logprobs, abs=1e-4)
            assert other.logprobs(c.prompt_ids, c.token_ids, 0.8) != pytest.approx(c.logprobs, abs=1e-2)


async def test_an_update_holds_up_what_samples_from_its_base_and_nothing_else(toy):
    one, other = pair(toy)["solver"], pair(toy)
    sampling = Sampling(max_tokens=2, seed=0)
    models = [HFModel((adapter, toy.Tokenizer())) for adapter in (*other.values(), one)]
    assert models[0].lock is models[1].lock is not models[2].lock
    with other["solver"].switched_on():  # as in forward and backward passes
        held = asyncio.create_task(models[0].complete([1, 2], 1, sampling))
        alone = await asyncio.to_thread(lambda: asyncio.run(models[2].complete([1, 2], 1, sampling)))
        assert len(alone) == 1 and not held.done()
    assert len(await held) == 1


def test_a_run_of_two_adapters_resumes_bit_by_bit(toy, tmp_path):
    def run(steps, directory):
        adapters = pair(toy)
        trainer = trainer_of(adapters, epochs=2, minibatches=2)

        async def batches(done):
            for step in range(done, steps):
                yield UpdateBatch(step, tuple(groups_of_two(toy, adapters["solver"], step)))

        asyncio.run(fit(trainer, batches, steps, directory=directory, checkpoint_every=1))
        return toy.digest(trainer)

    whole = run(4, None)
    run(2, tmp_path)
    assert run(4, tmp_path) == whole


def test_a_checkpoint_holds_adapters_that_peft_loads(toy, tmp_path):
    from peft import PeftModel

    adapters = pair(toy)
    stir(adapters["verifier"])
    path = trainer_of(adapters).save(tmp_path) / "verifier"
    names = {file.name for file in path.iterdir()}
    assert names == {"adapter_config.json", "adapter_model.safetensors", "optimizer.state"}
    loaded = PeftModel.from_pretrained(toy.tiny_model(), path)
    assert torch.equal(loaded(input_ids=IDS).logits, adapters["verifier"](input_ids=IDS).logits)


def test_a_base_in_half_precision_has_adapters_in_full(toy):
    adapters = add_adapters(toy.tiny_model().bfloat16(), ROLES, RANK)
    assert {p.dtype for a in adapters.values() for p in a.parameters()} == {torch.float32}
    assert adapters["solver"].dtype == torch.bfloat16
    before = weights(adapters)
    trainer_of(adapters).step(groups_of_two(toy, toy.tiny_model()))
    assert not any(torch.equal(before[role], flat(a)) for role, a in adapters.items())


def test_experts_that_are_one_parameter_and_their_router_get_none():
    sizes = {"vocab_size": 9, "hidden_size": 8, "head_dim": 4, "num_attention_heads": 2}
    experts = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 4, "num_hidden_layers": 1}
    model = Qwen3MoeForCausalLM(Qwen3MoeConfig(**sizes, **experts, num_key_value_heads=2)).eval()
    names = [name for name, _ in add_adapters(model, ["solver"], RANK)["solver"].named_parameters()]
    assert {name.split(".")[-3] for name in names} == {"q_proj", "k_proj", "v_proj", "o_proj"}


@pytest.mark.parametrize("name", ["model", "lora_A"])
def test_names_that_also_occur_inside_the_model_are_told_apart(toy, name):
    adapters = add_adapters(toy.tiny_model(), [name, f"{name}_2"], RANK)
    one, two = (dict(a.named_parameters()) for a in adapters.values())
    assert one.keys() == two.keys()
    assert not {id(p) for p in one.values()} & {id(p) for p in two.values()}
    assert len(one) == len(dict(pair(toy)["solver"].named_parameters()))
