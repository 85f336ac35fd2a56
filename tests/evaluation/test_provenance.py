"""A result names the code that made it: commit and versions."""

import pytest
from git_packages import git
from git_packages import package as package

import mars_env
from mars_env.errors import ConfigError
from mars_env.evaluation.provenance import provenance


def test_a_clean_tree_gives_its_commit_and_the_versions(package):
    found = provenance(package)
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
def test_a_tree_that_differs_is_marked(package, change):
    if change == "deleted":
        (package / "sub" / "code.py").unlink()
    else:
        (package.parent / change.split()[0]).write_text("x = 2\n")
    if change.endswith("staged"):
        git(package, "add", "sub/code.py")
    assert provenance(package).commit == git(package, "rev-parse", "HEAD") + "-dirty"


def test_what_a_run_writes_itself_is_no_change(package):
    (package.parent / "runs").mkdir()
    one = "studies/one"
    for name in ("docs/page.md", "docs/plot.svg", f"{one}/ledger.jsonl", f"{one}/tuning.jsonl", "runs/log"):
        (package.parent / name).write_text("new\n")
    assert not provenance(package).commit.endswith("-dirty")


def made(place):
    """An empty package."""
    place.mkdir(parents=True)
    (place / "__init__.py").write_text("")
    return place


def test_outside_of_a_checkout_the_versions_stand_alone(tmp_path):
    found = provenance(made(tmp_path / "site-packages" / "mars_env"))
    assert found.commit is None and found.versions["mars_env"] == mars_env.__version__


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
