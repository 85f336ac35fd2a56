"""A package in a repository of its own."""

import subprocess

import pytest


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    found = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True)
    return found.stdout.strip()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A committed package in a repository of its own."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    place = tmp_path / "repository"
    files = {"package/__init__.py": "", "package/sub/code.py": "x = 1\n", ".gitignore": "runs/\n"}
    empty = ("docs/page.md", "studies/one/study.py", "studies/one/ledger.jsonl")
    for name, text in {**files, **dict.fromkeys(empty, "")}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    git(place, "init", "-q")
    git(place, "add", ".")
    git(place, "commit", "-qm", "first")
    return place / "package"
