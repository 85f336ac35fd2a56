"""A result names the code that made it: clean commit, versions, or a refusal."""

import subprocess

import pytest
from messages import raises

import mars_env
from mars_env.errors import ConfigError
from mars_env.evaluation.provenance import commit_of, provenance


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
    found = provenance(package=package)
    assert found.commit == git(package, "rev-parse", "HEAD") and len(found.commit) == 40
    assert found.versions["mars_env"] == mars_env.__version__
    assert {"python", "numpy"} <= found.versions.keys()


@pytest.mark.parametrize(
    "change",
    [
        "package/sub/code.py",
        "package/sub/code.py staged",
        "package/new.py",
        "deleted",
        "run.py",
        "studies/one/study.py",
    ],
)
def test_a_tree_that_differs_is_refused_or_marked(package, change):
    if change == "deleted":
        (package / "sub" / "code.py").unlink()
    else:
        (package.parent / change.split()[0]).write_text("x = 2\n")
    if change.endswith("staged"):
        git(package, "add", "sub/code.py")
    with raises(ConfigError):
        provenance(package=package)
    marked = provenance(allow_dirty=True, package=package).commit
    assert marked == git(package, "rev-parse", "HEAD") + "-dirty"


def test_what_a_run_writes_itself_is_no_change(package):
    (package.parent / "runs").mkdir()
    one = "studies/one"
    for name in ("docs/page.md", "docs/plot.svg", f"{one}/ledger.jsonl", f"{one}/tuning.jsonl", "runs/log"):
        (package.parent / name).write_text("new\n")
    assert not provenance(package=package).commit.endswith("-dirty")


def made(place):
    """An empty package."""
    place.mkdir(parents=True)
    (place / "__init__.py").write_text("")
    return place


def test_outside_of_a_checkout_the_versions_stand_alone(tmp_path):
    found = provenance(package=made(tmp_path / "site-packages" / "mars_env"))
    assert found.commit is None and found.versions["mars_env"] == mars_env.__version__


def test_a_checkout_that_holds_an_environment_is_not_that_of_the_package(package):
    """A wheel installed below a user's own project does not record the project's commit."""
    installed = made(package.parent / "runs" / "venv" / "mars_env")
    (package / "sub" / "code.py").write_text("x = 2\n")
    assert provenance(package=installed).commit is None


def test_variables_of_a_hook_do_not_lead_astray(package, tmp_path, monkeypatch):
    commit = git(package, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert provenance(package=package).commit == commit


def test_a_git_that_cannot_tell_is_an_error(tmp_path):
    broken = made(tmp_path / "package")
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    with raises(ConfigError):
        provenance(package=broken)


def test_a_plan_has_the_commit_that_wrote_it_last_wherever_it_lies(package):
    plan = package.parent / "docs" / "plan.md"
    plan.write_text("one primary comparison\n")
    with raises(ConfigError):
        commit_of(plan)
    git(package.parent, "add", ".")
    git(package.parent, "commit", "-qm", "plan")
    planned = git(package, "rev-parse", "HEAD")
    (package / "__init__.py").write_text("y = 2\n")
    git(package.parent, "commit", "-qam", "code")
    assert commit_of(plan) == planned
    git(package.parent, "mv", "docs/plan.md", "studies/one/plan.md")
    git(package.parent, "commit", "-qm", "move")
    plan = package.parent / "studies" / "one" / "plan.md"
    assert commit_of(plan) == planned
    plan.write_text("another comparison, after the first look\n")
    with raises(ConfigError):
        commit_of(plan)
