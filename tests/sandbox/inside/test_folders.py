"""Folders that programs leave behind: counted and removed whatever is in them."""

import os
from pathlib import Path

import pytest

from mars_env.sandbox.inside import folders


@pytest.fixture
def left(tmp_path):
    """A folder with what others stumble over: depth, modes, links, and names that clean-up itself uses."""
    folder = tmp_path / "left"
    folder.mkdir()
    here = os.open(".", os.O_RDONLY)
    os.chdir(folder)
    for _ in range(150):  # 30,000 characters: no call takes such a path
        Path("d" * 200).mkdir()
        os.chdir("d" * 200)
    Path("link").symlink_to("/etc")
    os.fchdir(here)
    os.close(here)
    for name in (".1", ".2"):
        (folder / name / "inner").mkdir(parents=True)
        (folder / name / "file").write_bytes(b"x" * 10_000)
    (folder / "locked").mkdir()
    (folder / "locked" / "inner").mkdir(mode=0)
    (folder / "locked").chmod(0o300)
    return folder


def test_everything_is_removed_and_nothing_else(left, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    (left / "link").symlink_to(outside)
    folders.remove(str(left))
    assert not left.exists() and (outside / "file").read_text() == "kept"
    folders.remove(str(left))  # again: it is gone


def test_an_ordinary_user_can_remove_what_it_cannot_list(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("the tests themselves run as an ordinary user: the test above shows it")
    for name in ("own", "own/locked", "own/locked/inner", "own/locked/inner/last"):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, 65534, 65534)
    (tmp_path / "own/locked/inner").chmod(0)
    (tmp_path / "own/locked").chmod(0o300)
    handle = os.open(tmp_path / "own", os.O_RDONLY)
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(65534, 65534, 65534)
            os.fchdir(handle)
            folders.empty(".")
            os._exit(0)
        except BaseException:
            os._exit(1)
    os.close(handle)
    assert os.waitpid(pid, 0)[1] == 0 and not any((tmp_path / "own").iterdir())


def test_usage_sees_what_is_hidden_and_says_that_too_deep_is_too_many(left, tmp_path):
    assert folders.folder_usage(str(left), 1000)[1] > 1000
    plain = tmp_path / "plain"
    (plain / "a" / "b").mkdir(parents=True)
    (plain / "a" / "b" / "file").write_bytes(os.urandom(100_000))
    (plain / "a").chmod(0o300)
    size, files = folders.folder_usage(str(plain), 1000)
    assert files == 3 and 100_000 <= size < 200_000
