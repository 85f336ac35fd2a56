import asyncio
import json
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
from mars_env.trainers import LocalTrainer, Policy, TrainConfig, fit
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


MAY_CHANGE = {
    "token_budget": 40, "shared_prefixes": False, "gradient_checkpointing": True, "offload": True,
    "most_logits": 100,
}  # fmt: skip
"""Another value of every setting of an update with which a run may be continued."""


def test_of_the_settings_of_an_update_only_memory_and_speed_may_change():
    parts = settings_identity(TrainConfig())
    assert parts["may_change"].keys() == MAY_CHANGE.keys()
    assert parts["must_match"].keys() == TrainConfig.model_fields.keys() - MAY_CHANGE.keys()


@pytest.mark.parametrize("name", MAY_CHANGE)
def test_a_run_continues_with_other_memory_and_speed_and_back(toy, tmp_path, name):
    """It ends as the uninterrupted run, but for rounding."""
    tiny = trained(toy, 1)
    for config in (toy.CONFIG.model_copy(update={name: MAY_CHANGE[name]}), toy.CONFIG):
        tiny.save(tmp_path)
        tiny = trained(toy, 0, config)
        assert tiny.resume(tmp_path)
        tiny.step(toy.toy_groups(tiny.policies["mars"].model, tiny.steps))
    whole = trained(toy, 3)
    for one, other in zip(*(t.policies["mars"].model.parameters() for t in (tiny, whole)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_run_does_not_continue_with_another_objective(toy, tmp_path):
    tiny = trained(toy, 0)
    tiny.steps = 1
    tiny.save(tmp_path)
    with pytest.raises(StoreError, match="clip_low"):
        trained(toy, 0, toy.CONFIG.model_copy(update={"clip_low": 0.1})).resume(tmp_path)


def test_other_runs_policies_and_formats_are_refused(toy, tmp_path):
    def resumed(name="mars", run=(8, 2)):
        trainer = LocalTrainer({name: Policy(toy.tiny_model())}, toy.CONFIG, run={"group": run})
        return trainer.resume(tmp_path)

    offload = toy.CONFIG.model_copy(update={"offload": True})
    tiny = LocalTrainer({"mars": Policy(toy.tiny_model())}, toy.CONFIG, run={"group": (8, 2)})
    tiny.steps = 1
    path = tiny.save(tmp_path)
    assert resumed()
    for changes in ({"run": (8, 3)}, {"name": "solver"}):
        with pytest.raises(StoreError):
            resumed(**changes)
    half = {"mars": Policy(toy.tiny_model().bfloat16())}
    with pytest.raises(StoreError) as caught:
        LocalTrainer(half, offload, run={"group": (8, 2)}).resume(tmp_path)
    assert "precision" in str(caught.value)
    state = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(state | {"format": 99}))
    write_digests(path)
    with pytest.raises(StoreError):
        resumed()


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
