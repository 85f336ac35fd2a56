import asyncio
import json
import logging
import shutil

import pytest
import torch
from full_disk import full_disk
from messages import raises
from transformers import AutoModelForCausalLM

from mars_env.errors import ConfigError, StoreError
from mars_env.rollout import UpdateBatch
from mars_env.trainers import LocalTrainer, Policy, TrainConfig, fit
from mars_env.trainers.checkpoints import newest_checkpoint


def trained(toy, steps, config=None):
    tiny = LocalTrainer({"mars": Policy(toy.tiny_model())}, config or toy.CONFIG)
    for step in range(steps):
        tiny.step(toy.toy_groups(tiny.policies["mars"].model, step))
    return tiny


def test_a_checkpoint_is_the_whole_state_bit_by_bit(toy, tmp_path):
    first = trained(toy, 3)
    path = first.save(tmp_path)
    assert path.name == "step-00000003"
    second = LocalTrainer({"mars": Policy(toy.tiny_model(seed=9))}, toy.CONFIG)
    assert second.resume(tmp_path)
    assert toy.digest(second) == toy.digest(first)
    for each in (first, second):
        each.step(toy.toy_groups(each.policies["mars"].model, 3))
    assert toy.digest(second) == toy.digest(first)
    assert not second.resume(tmp_path)  # the checkpoint is behind it by now


def test_a_policy_is_an_ordinary_checkpoint_of_transformers(toy, tmp_path):
    tiny = trained(toy, 1)
    path = tiny.save(tmp_path) / "mars"
    assert [file.name for file in path.glob("*.safetensors")] == ["model.safetensors"]  # vLLM reads all
    loaded = AutoModelForCausalLM.from_pretrained(path)
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(loaded(ids).logits, tiny.policies["mars"].model(ids).logits)


def test_only_the_newest_are_kept(toy, tmp_path):
    tiny = trained(toy, 0)
    for tiny.steps in (1, 2, 3, 4):
        tiny.save(tmp_path, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000003", "step-00000004"]
    assert [tiny.save(tmp_path, keep=0)] == [*tmp_path.iterdir()]


def test_a_checkpoint_stays_beside_later_ones(toy, tmp_path):
    for steps in (10, 20):
        tiny = trained(toy, 0)
        tiny.steps = steps
        (tiny.save(tmp_path) / "mars" / "model.safetensors").write_bytes(b"copied in part")
    again = trained(toy, 1)
    assert not again.resume(tmp_path)
    assert newest_checkpoint(tmp_path) is None
    assert again.save(tmp_path) == newest_checkpoint(tmp_path)


def test_a_generation_config_that_transformers_refuses_to_write_is_written_as_it_was_read(toy, tmp_path):
    tiny = trained(toy, 0)
    model = tiny.policies["mars"].model
    model.generation_config.temperature = 0.6  # without do_sample, as some published checkpoints have it
    with raises(ValueError):
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


def shortened(path, by):
    path.write_bytes(path.read_bytes()[:-by])


@pytest.mark.parametrize(
    "damage",
    [
        lambda torn: shortened(torn / "mars" / "model.safetensors", 1),
        lambda torn: shortened(torn / "state.json", 20),
        lambda torn: (torn / "state.json").unlink(),
        lambda torn: (torn / "mars" / "optimizer.state").unlink(),
        lambda torn: shutil.rmtree(torn) or torn.mkdir(),
    ],
    ids=["cut weights", "cut state", "no state", "no optimiser", "empty"],
)
def test_torn_checkpoints_are_passed_over(toy, tmp_path, caplog, damage):
    tiny = trained(toy, 1)
    good = tiny.save(tmp_path)
    whole = toy.digest(tiny)
    tiny.step(toy.toy_groups(tiny.policies["mars"].model, 1))
    torn = tiny.save(tmp_path)
    damage(torn)
    with caplog.at_level(logging.WARNING):
        assert newest_checkpoint(tmp_path) == good
    assert torn.name in caplog.text
    again = LocalTrainer({"mars": Policy(toy.tiny_model())}, toy.CONFIG)
    assert again.resume(tmp_path)
    assert toy.digest(again) == whole
    again.steps = 2
    again.save(tmp_path)  # a torn one of the same step is replaced
    assert newest_checkpoint(tmp_path).name == "step-00000002"


def test_what_a_kill_left_of_a_write_is_cleared_away(toy, tmp_path):
    for leftover in (".scratch-00000001", ".scratch-old-step-00000000"):
        (tmp_path / leftover / "mars").mkdir(parents=True)
    assert newest_checkpoint(tmp_path) is None
    trained(toy, 1).save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["step-00000001"]


def test_other_settings_policies_and_formats_are_refused(toy, tmp_path):
    def resumed(name="mars", config=toy.CONFIG, group=(8, 2)):
        made = LocalTrainer({name: Policy(toy.tiny_model())}, config, run={"group": group})
        return made.resume(tmp_path)

    tiny = LocalTrainer({"mars": Policy(toy.tiny_model())}, toy.CONFIG, run={"group": (8, 2)})
    tiny.steps = 1
    path = tiny.save(tmp_path)
    assert resumed()
    other = toy.CONFIG.model_copy(update={"learning_rate": 0.5, "epochs": 7})
    for changes in ({"config": other}, {"group": (8, 3)}, {"name": "solver"}):
        with raises(StoreError):
            resumed(**changes)
    state = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(state | {"format": 99}))
    with raises(StoreError):
        resumed()


def test_fit_goes_on_where_an_earlier_call_ended(toy, tmp_path):
    whole = toy.train(None, every=1)
    for steps in (3, 8, toy.STEPS):  # a new process each, as far as the trainer can tell
        last = toy.train(tmp_path, every=2, steps=steps)
    assert last == whole
    assert toy.train(tmp_path, every=2) == whole  # nothing is left to do
    with raises(ConfigError):
        toy.train(tmp_path, every=2, steps=19)
    with raises(ConfigError):
        toy.train(tmp_path, every=0)


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
