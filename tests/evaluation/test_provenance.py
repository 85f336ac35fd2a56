"""A result names the code that made it: commit and versions."""

import subprocess

import pytest

import mars_env
from mars_env.errors import ConfigError
from mars_env.evaluation.provenance import provenance


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


def test_a_clean_tree_gives_its_commit_and_the_versions(package):
    found = provenance(package)
    assert found.commit == git(package, "rev-parse", "HEAD") and len(found.commit) == 40
    assert found.versions["mars_env"] == mars_env.__version__
    assert {"python", "numpy"} <= found.versions.keys()


@pytest.mark.parametrize(
    ("change", "is_staged"), [("package/sub/code.py", False), ("package/new.py", True), ("run.py", False)]
)
def test_a_tree_that_differs_is_marked(package, change, is_staged):
    (package.parent / change).write_text("x = 2\n")
    if is_staged:
        git(package.parent, "add", change)
    assert provenance(package).commit == git(package, "rev-parse", "HEAD") + "-dirty"


def made(place):
    """An empty package."""
    place.mkdir(parents=True)
    (place / "__init__.py").write_text("")
    return place


def test_a_checkout_that_holds_an_environment_is_not_that_of_the_package(package):
    """A wheel installed below a user's own project does not record the project's commit."""
    installed = made(package.parent / "runs" / "venv" / "mars_env")
    (package / "sub" / "code.py").write_text("x = 2\n")
    assert provenance(installed).commit is None


def test_a_git_that_cannot_tell_is_an_error(tmp_path):
    broken = made(tmp_path / "package")
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    with pytest.raises(ConfigError):
        provenance(broken)
