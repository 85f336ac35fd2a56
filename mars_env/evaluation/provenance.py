"""Where a result comes from: the commit of the code and the versions of the libraries that decide it."""

import os
import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from mars_env.errors import ConfigError

LIBRARIES: Final = ("mars_env", "torch", "numpy", "transformers")
DIRTY: Final = "-dirty"
OUTPUTS: Final = ("docs/**", "studies/*/*.jsonl")
"""Files whose changes do not count: ledgers and pages grow while a run goes on, and no code lies in them."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """The commit and versions of the code that made a result.

    `commit` has ``-dirty`` after it where files differed from it, and is None outside of a git checkout of
    mars_env, where the version alone says what ran.
    """

    commit: str | None
    versions: dict[str, str]


def versions() -> dict[str, str]:
    """Versions of Python, mars_env and the libraries that decide metrics, as far as they are installed."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def provenance(*, allow_dirty: bool = False, package: Path | None = None) -> Provenance:
    """The commit and versions of the code that runs. Ask before a run starts, not after it.

    Any modified, staged or untracked file of the checkout counts as changed, ledgers and pages apart.

    Args:
        allow_dirty: Record a working tree that differs from its commit, marked ``-dirty``.
        package: Folder of the package; by default that of the mars_env that is imported.

    Raises:
        ConfigError: If files differ from the commit and `allow_dirty` is false, or git cannot tell.
    """
    folder = (package or Path(__file__).parents[1]).resolve()
    in_checkout = any((parent / ".git").exists() for parent in folder.parents)
    # The package may be installed into an environment that lies in another checkout.
    if not in_checkout or not _git(folder, "ls-files", "--", "__init__.py"):
        return Provenance(None, versions())
    commit = _git(folder, "rev-parse", "HEAD")
    outputs = [f":(top,exclude,glob){pattern}" for pattern in OUTPUTS]
    changed = _git(folder, "status", "--porcelain", "-uall", "--", ":/", *outputs).splitlines()
    if changed and not allow_dirty:
        names = ", ".join(line.split(maxsplit=1)[1] for line in changed[:3])
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        differs = f"the working tree differs from commit {commit[:12]} ({names}{more})"
        raise ConfigError(f"{differs}: commit first, or allow it (--allow-dirty), which marks the row")
    return Provenance(commit + DIRTY if changed else commit, versions())


def commit_of(file: Path) -> str:
    """The last commit that wrote a file; one that only moved it does not count.

    Raises:
        ConfigError: The file is not committed as it is now, or git cannot tell.
    """
    commit = _git(file.parent, "log", "--follow", "--diff-filter=AM", "--format=%H", "--", file.name)
    if not commit or _git(file.parent, "status", "--porcelain", "--", file.name):
        raise ConfigError(f"{file.name} is not committed as it is now: commit it before the first result")
    return commit.splitlines()[0]


def _git(folder: Path, *words: str) -> str:
    # Variables such as GIT_DIR, which hooks set, would point git at another repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        found = subprocess.run(
            ["git", *words], cwd=folder, env=env, capture_output=True, text=True, errors="replace", check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        message = getattr(error, "stderr", None) or str(error)
        raise ConfigError(f"git cannot tell the commit of {folder}: {message.strip()}") from error
    return found.stdout.strip()
