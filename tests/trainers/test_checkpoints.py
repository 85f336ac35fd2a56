import asyncio
import importlib
import json
import sys
import tempfile
from pathlib import Path

import pytest
import torch
import toy_training
from full_disk import full_disk
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from mars_env.errors import StoreError
from mars_env.identity import settings_identity
from mars_env.rollout import UpdateBatch
from mars_env.trainers import LocalTrainer, Overlong, Policy, TrainConfig, TreeCredit, fit
from mars_env.trainers.checkpoints import newest_checkpoint
from mars_env.trainers.folders import write_digests


def trained(toy, steps, config=None):
    tiny = LocalTrainer({"mars": Policy(toy.tiny_model())}, config or toy.CONFIG)
    for step in range(steps):
        tiny.step(toy.toy_groups(tiny.policies["mars"].model, step))
    return tiny


def test_a_policy_is_an_ordinary_checkpoint_of_transformers(toy, tmp_path):
    tiny = trained(toy, 1)
    path = tiny.save(tmp_path) / "mars"
    assert [file.name for file in path.glob("*.safetensors")] == ["model.safetensors"]  # vLLM reads all
    loaded = AutoModelForCausalLM.from_pretrained(path)
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(loaded(ids).logits, tiny.policies["mars"].model(ids).logits)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 3))
def test_up_to_the_step_that_is_saved_the_newest_are_kept_and_later_ones_stay(steps, keep):
    with tempfile.TemporaryDirectory() as folder:
        tiny, expected = trained(toy_training, 0), set()
        for tiny.steps in steps:
            tiny.save(folder, keep=keep)
            expected.add(tiny.steps)
            earlier = sorted(step for step in expected if step <= tiny.steps)
            expected -= {*earlier[: -max(1, keep)]}
        names = {path.name for path in Path(folder).iterdir()}
        assert names == {f"step-{step:08d}" for step in expected}
        assert newest_checkpoint(Path(folder)).name == max(names)


def test_a_generation_config_that_transformers_refuses_to_write_is_written_as_it_was_read(toy, tmp_path):
    tiny = trained(toy, 0)
    model = tiny.policies["mars"].model
    model.generation_config.temperature = 0.6  # without do_sample, as some published checkpoints have it
    with pytest.raises(ValueError):
        model.save_pretrained(tmp_path / "plain")
    path = tiny.save(tmp_path / "run")
    assert AutoModelForCausalLM.from_pretrained(path / "mars").generation_config.temperature == 0.6
    assert model.generation_config.temperature == 0.6


@pytest.mark.parametrize("bytes_left", [0, 2000])
def test_a_full_disk_is_one_error_and_earlier_checkpoints_stay(toy, tmp_path, bytes_left):
    tiny = trained(toy, 1)
    good = tiny.save(tmp_path)
    tiny.step(toy.toy_groups(tiny.policies["mars"].model, 1))
    with full_disk(bytes_left), pytest.raises(StoreError):
        tiny.save(tmp_path)
    assert newest_checkpoint(tmp_path) == good
    assert tiny.save(tmp_path) == newest_checkpoint(tmp_path)


def test_a_folder_that_cannot_be_made_is_one_error(toy, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        trained(toy, 0).save(tmp_path / "file" / "run")


OTHER = {
    "must_match": {
        "train_roles": ("solver",),
        "credit": "team",
        "labels": "majority",
        "imitate": "reference",
        "balance": True,
        "advantage": "mean_centred",
        "uniform_groups": "drop",
        "batch_roles": ("solver",),
        "tree_credit": TreeCredit(),
        "overlong": Overlong(limit=9, buffer=3),
        "call_cost": 0.1,
        "tis_cap": 3.0,
        "tis_veto": 0.1,
        "dmmpt_threshold": 0.9,
        "seed": 6,
        "learning_rate": 0.5,
        "warmup_updates": 4,
        "betas": (0.8, 0.9),
        "weight_decay": 0.1,
        "max_grad_norm": 2.0,
        "epochs": 1,
        "minibatches": 1,
        "autocast": True,
        "ratio": "sequence",
        "clip_low": 0.1,
        "clip_high": 0.3,
        "dual_clip": 3.0,
        "aggregation": "sequence-mean",
        "kl_coefficient": 0.1,
    },
    "may_change": {
        "token_budget": 40,
        "shared_prefixes": False,
        "gradient_checkpointing": True,
        "offload": True,
        "most_logits": 100,
    },
}
"""Another value of every setting of an update, so that a new setting has to choose its part."""


def test_every_setting_of_an_update_is_in_one_of_the_parts():
    parts = settings_identity(TrainConfig())
    assert {name: part.keys() for name, part in parts.items()} == {
        n: part.keys() for n, part in OTHER.items()
    }


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("name", OTHER["may_change"])
def test_a_run_continues_with_other_memory_and_speed(toy, tmp_path, name, back):
    """And back: both ends are those of the uninterrupted run, but for rounding."""
    configs = [toy.CONFIG, toy.CONFIG.model_copy(update={name: OTHER["may_change"][name]})]
    first, second = reversed(configs) if back else configs
    trained(toy, 2, first).save(tmp_path)
    again, whole = trained(toy, 0, second), trained(toy, 2, second)
    assert again.resume(tmp_path)
    for trainer in (again, whole):
        for step in (2, 3):
            trainer.step(toy.toy_groups(toy.tiny_model(), step))
    for one, other in zip(*(t.policies["mars"].model.parameters() for t in (again, whole)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OTHER["must_match"])
def test_a_run_does_not_continue_with_another_objective_order_or_optimizer(toy, tmp_path, name):
    tiny = trained(toy, 0)
    tiny.steps = 1
    tiny.save(tmp_path)
    other = trained(toy, 0)
    other.config = toy.CONFIG.model_copy(update={name: OTHER["must_match"][name]})
    with pytest.raises(StoreError) as caught:
        other.resume(tmp_path)
    assert name in str(caught.value)


def test_other_runs_policies_and_formats_are_refused(toy, tmp_path):
    def resumed(name="mars", model=toy.tiny_model, run=(8, 2), **options):
        trainer = LocalTrainer({name: Policy(model())}, toy.CONFIG, run={"group": run}, **options)
        return trainer.resume(tmp_path)

    def bfloat16():
        return toy.tiny_model().bfloat16()

    offload = toy.CONFIG.model_copy(update={"offload": True})
    tiny = LocalTrainer({"mars": Policy(toy.tiny_model())}, toy.CONFIG, run={"group": (8, 2)})
    tiny.steps = 1
    path = tiny.save(tmp_path)
    assert resumed()
    for changes in ({"run": (8, 3)}, {"name": "solver"}, {"estimator": toy.rewarded}):
        with pytest.raises(StoreError):
            resumed(**changes)
    with pytest.raises(StoreError) as caught:
        LocalTrainer({"mars": Policy(bfloat16())}, offload, run={"group": (8, 2)}).resume(tmp_path)
    assert "precision" in str(caught.value)
    state = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(state | {"format": 99}))
    write_digests(path)
    with pytest.raises(StoreError):
        resumed()


def test_two_policies_and_untouched_optimisers_are_restored(toy, tmp_path):
    def fresh():
        policies = {"mars": Policy(toy.tiny_model()), "helper": Policy(toy.tiny_model(seed=1))}
        return LocalTrainer(policies, TrainConfig(learning_rate=1e-2))

    pair = fresh()
    # The helper has no turns, so its optimiser has no state.
    assert pair.step(toy.toy_groups(pair.policies["mars"].model, 0)).advantages.kept > 0
    pair.save(tmp_path)
    again = fresh()
    assert again.resume(tmp_path)
    assert toy.digest(again) == toy.digest(pair)
    assert [policy.version for policy in again.policies.values()] == [1, 0]
    assert asyncio.run(fit(again, None, 1)) == []


@pytest.mark.parametrize("updates", [5, 7], ids=["with a checkpoint of its own", "between two"])
def test_the_last_update_has_a_checkpoint_where_the_batches_end_early(toy, tmp_path, updates, monkeypatch):
    trainer, saved = trained(toy, 0), []
    save = LocalTrainer.save
    monkeypatch.setattr(
        LocalTrainer,
        "save",
        lambda self, *given, **more: saved.append(self.steps) or save(self, *given, **more),
    )

    async def batches(done):
        for step in range(done, updates):
            yield UpdateBatch(step, tuple(toy.toy_groups(trainer.policies["mars"].model, step)))

    asyncio.run(fit(trainer, batches, 100, directory=tmp_path, checkpoint_every=5))
    assert saved == sorted({5, updates})  # each once
    assert newest_checkpoint(tmp_path).name == f"step-0000000{updates}"


def test_a_user_s_credit_counts_by_its_source_text(toy, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def resumed(source):
        (tmp_path / "own_credit.py").write_text(f"def rule(groups):\n    return {source}\n")
        monkeypatch.delitem(sys.modules, "own_credit", raising=False)
        importlib.invalidate_caches()
        tiny = trained(toy, 0, toy.CONFIG.model_copy(update={"credit": "own_credit:rule"}))
        found = tiny.resume(tmp_path)
        tiny.steps = 1
        tiny.save(tmp_path)
        return found

    assert [resumed("list(groups)"), resumed("list(groups)")] == [False, True]
    with pytest.raises(StoreError):
        resumed("list(groups)[:-1]")
