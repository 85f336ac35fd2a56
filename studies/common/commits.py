"""Rows and plans belong to commits: what a study requires before its first row."""

from pathlib import Path

from mars_env.errors import ConfigError
from mars_env.evaluation.provenance import DIRTY, Provenance, git


def committed(origin: Provenance) -> Provenance:
    """The provenance of code that is committed; a `ConfigError` for a working tree that differs."""
    if origin.commit and origin.commit.endswith(DIRTY):
        differs = f"the working tree differs from commit {origin.commit[:12]}"
        raise ConfigError(f"{differs}: commit first, or allow it (--allow-dirty), which marks the row")
    return origin


def commit_of(file: Path) -> str:
    """The last commit that wrote a file; one that only moved it does not count.

    Raises:
        ConfigError: The file is not committed as it is now, or git cannot tell.
    """
    commit = git(file.parent, "log", "--follow", "--diff-filter=AM", "--format=%H", "--", file.name)
    if not commit or git(file.parent, "status", "--porcelain", "--", file.name):
        raise ConfigError(f"{file.name} is not committed as it is now: commit it before the first result")
    return commit.splitlines()[0]
