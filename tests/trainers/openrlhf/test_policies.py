"""Each policy's arguments, and which checkpoints of several policies belong together."""

from types import SimpleNamespace as S

import pytest

from mars_env.errors import StoreError
from mars_env.trainers.openrlhf.policies import LATEST, arguments_of, tag_of, take_common_checkpoint


def test_arguments_of_one_policy_are_its_own():
    args = S(
        actor=S(model_name_or_path="x", num_nodes=1), ckpt=S(path="c", output_dir="m"),
        train=S(seed=42),
    )  # fmt: skip
    one = arguments_of(args, "one", "path/a")
    one.actor.num_nodes = 5
    two = arguments_of(args, "two", "path/b")
    assert (args.actor.model_name_or_path, args.actor.num_nodes, two.actor.num_nodes) == ("x", 1, 1)
    assert one.ckpt.path != two.ckpt.path
    again = arguments_of(args, "one", "path/a", resumed=tag_of(3))
    assert len({args.train.seed, one.train.seed, two.train.seed, again.train.seed}) == 4


def saved(folder, updates, latest):
    for update in updates:
        (folder / tag_of(update)).mkdir(parents=True)
    if latest is not None:
        (folder / LATEST).write_text(tag_of(latest))
    return folder


def test_resumes_from_the_newest_update_that_all_have_saved_whole(tmp_path):
    one = saved(tmp_path / "one" / "_actor", [2, 4, 10, 12], 12)
    two = saved(tmp_path / "two" / "_actor", [4, 10, 12], 10)  # killed while it saved 12
    assert take_common_checkpoint([one, two]) == tag_of(10)
    assert (one / LATEST).read_text() == (two / LATEST).read_text() == tag_of(10)
    assert take_common_checkpoint([one, two]) == tag_of(10)


def test_checkpoints_of_different_runs_are_refused(tmp_path):
    one = saved(tmp_path / "one" / "_actor", [2, 4], 4)
    two = saved(tmp_path / "two" / "_actor", [6, 8], 8)
    with pytest.raises(StoreError):
        take_common_checkpoint([one, two])
    with pytest.raises(StoreError):
        take_common_checkpoint([one, tmp_path / "three" / "_actor"])
