"""Folders that kills and disks cannot leave half written."""

import re

import pytest
from file_kills import killed_at

from mars_env.errors import StoreError
from mars_env.trainers.checkpoints import load_state
from mars_env.trainers.folders import (
    DIGESTS,
    damaged_file,
    numbered,
    remove_folder,
    whole_folder,
    write_digests,
)

NAME = re.compile("step-([0-9]+)")


def write(folder, text):
    with whole_folder(folder) as draft:
        (draft / "inner").mkdir()
        for name in ("a", "inner/b"):
            (draft / name).write_text(text)
        write_digests(draft)


def texts(folder):
    assert damaged_file(folder) is None
    return {(folder / name).read_text() for name in ("a", "inner/b")}


def test_a_folder_is_whole_or_not_there_wherever_its_replacement_is_killed(tmp_path):
    folder, seen = tmp_path / "step-1", []
    write(folder, "0")
    for call in range(1, 1000):
        with killed_at(call, tmp_path) as deaths:
            write(folder, str(call))
        if not deaths:
            break
        seen += [text for _, path in numbered(tmp_path, NAME) for text in texts(path)]
    assert call > 20 and "0" in seen
    assert texts(folder) == {str(call)} and [path.name for path in tmp_path.iterdir()] == ["step-1"]


def test_a_folder_is_there_or_not_wherever_its_removal_is_killed(tmp_path):
    folder = tmp_path / "step-1"
    for call in range(1, 1000):
        write(folder, "0")
        with killed_at(call, tmp_path) as deaths:
            remove_folder(folder)
        if not deaths:
            break
        assert all(texts(path) == {"0"} for _, path in numbered(tmp_path, NAME))
    assert call > 5 and not numbered(tmp_path, NAME)


@pytest.mark.parametrize("name", ["a", "inner/b", DIGESTS])
def test_any_byte_that_changes_and_any_file_that_is_missing_is_named(tmp_path, name):
    write(tmp_path / "step-1", "some text")
    file = tmp_path / "step-1" / name
    whole = file.read_bytes()
    for place in range(len(whole)):
        for bit in (1, 128):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            assert damaged_file(tmp_path / "step-1") == file
    for damaged in (b"", whole[:-1], whole + b"\n"):
        file.write_bytes(damaged)
        assert damaged_file(tmp_path / "step-1") == file
    file.unlink()
    with pytest.raises(StoreError) as caught:
        load_state(tmp_path / "step-1")
    assert str(file) in str(caught.value)
