import hashlib
import json
import pickle

import pytest
import safetensors
import swarm_run
import torch
import toy_training
from messages import raises

from mars_env.errors import ConfigError, StoreError
from mars_env.sync import run_sync
from mars_env.trainers.local import Policy
from mars_env.trainers.swarm import WeightStore
from mars_env.trainers.swarm.weights import MANIFEST, read_tensors


@pytest.fixture
def policy():
    return Policy(swarm_run.model().module)


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_what_is_published_is_read_bit_by_bit(tmp_path, policy):
    store = WeightStore(tmp_path)
    told = store.publish({"opener": policy})
    assert equal(run_sync(store.fetch(told))["opener"], policy.model.state_dict())


def test_tied_weights_are_written_once_and_read_twice(tmp_path):
    model = toy_training.tiny_model()
    state = model.state_dict()
    assert state["lm_head.weight"].data_ptr() == state["model.embed_tokens.weight"].data_ptr()
    told = WeightStore(tmp_path).publish({"toy": Policy(model)})
    assert equal(run_sync(WeightStore(tmp_path).fetch(told))["toy"], state)
    with safetensors.safe_open(WeightStore(tmp_path).file(1, "toy"), framework="pt") as file:
        assert len(file.keys()) == len(state) - 1


def test_the_newest_publications_stay_and_numbers_only_grow(tmp_path, policy):
    store = WeightStore(tmp_path, keep=2)
    told = [store.publish({"opener": policy}) for _ in range(4)]
    assert [each.number for each in told] == [1, 2, 3, 4]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000003", "00000004"]
    with raises(StoreError):
        run_sync(store.fetch(told[0]))
    policy.version = 0  # a learner that continues from an older checkpoint
    again = WeightStore(tmp_path).publish({"opener": policy})
    assert again.number == 5 and again.store == told[0].store and again.newer_than(told[3])


def test_what_a_killed_learner_left_half_written_is_not_seen_and_goes(tmp_path, policy):
    store = WeightStore(tmp_path)
    (tmp_path / ".scratch-0011").mkdir()
    (tmp_path / ".scratch-0011" / "opener.safetensors").write_bytes(b"half")
    assert store.newest() is None
    store.publish({"opener": policy})
    assert [path.name for path in tmp_path.iterdir()] == ["00000001"]


def test_a_store_that_was_made_again_is_another_one(tmp_path, policy):
    one = WeightStore(tmp_path / "a").publish({"opener": policy})
    other = WeightStore(tmp_path / "b").publish({"opener": policy})
    assert one.number == other.number and one.newer_than(other) and other.newer_than(one)


def linked(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize(
    "harm",
    [
        lambda path, data: path.write_bytes(data[:-1] + bytes([data[-1] ^ 1])),
        lambda path, data: path.write_bytes(data[:-4]),
        lambda path, data: path.write_bytes(b"\0" * len(data)),
        lambda path, data: path.write_bytes(pickle.dumps({"weights": 1})),
        lambda path, data: linked(path),
        lambda path, data: path.unlink(),
    ],
    ids=["a bit", "cut", "another file", "pickle", "link", "gone"],
)
def test_weights_that_are_not_what_the_manifest_says_are_refused(tmp_path, policy, harm):
    store = WeightStore(tmp_path)
    told = store.publish({"opener": policy})
    path = store.file(1, "opener")
    harm(path, path.read_bytes())
    with raises(StoreError):
        run_sync(store.fetch(told))


def test_a_file_with_the_right_hash_that_holds_no_weights_is_refused_too(tmp_path, policy):
    path = tmp_path / "opener.safetensors"
    for data in (pickle.dumps({"weights": 1}), b"", b"\xff" * 64):
        path.write_bytes(data)
        told = WeightStore(tmp_path / "store").publish({"opener": policy}).policies["opener"]
        told = told.model_copy(update={"size": len(data), "sha256": hashlib.sha256(data).hexdigest()})
        with raises(StoreError):
            read_tensors(path, told)


@pytest.mark.parametrize("change", [
    {"format": 2}, {"number": 0}, {"number": "x"}, {"store": "x"}, {"more": 1},
    {"policies": {"../x": {"version": 0, "size": 1, "sha256": "0" * 64}}},
    {"policies": {"x": {"version": -1, "size": 1, "sha256": "0" * 64}}},
], ids=str)  # fmt: skip
def test_a_manifest_of_another_form_is_refused(tmp_path, policy, change):
    store = WeightStore(tmp_path)
    store.publish({"opener": policy})
    manifest = tmp_path / "00000001" / MANIFEST
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **change}))
    with raises(StoreError):
        store.newest()


def test_a_second_learner_in_one_store_is_refused(tmp_path, policy, monkeypatch):
    store = WeightStore(tmp_path)
    store.publish({"opener": policy})
    monkeypatch.setattr(store, "newest", lambda: None)  # it looked before the other one published
    with raises(StoreError):
        store.publish({"opener": policy})
    assert [path.name for path in tmp_path.iterdir()] == ["00000001"]


def test_a_store_keeps_at_least_one(tmp_path):
    with raises(ConfigError):
        WeightStore(tmp_path, keep=0)
