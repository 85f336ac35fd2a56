"""Where a result comes from: the commit of the code and the versions of the libraries that decide it."""

import os
import platform
import subprocess
from contextlib import suppress
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
    """The commit, ``-dirty`` where files differed from it, and versions of the code that made a result.

    Outside of a git checkout of mars_env the commit is None: the version alone says what ran.
    """

    commit: str | None
    versions: dict[str, str]


def versions() -> dict[str, str]:
    """Versions of Python, mars_env and the libraries that decide metrics, as far as they are installed."""
    numbers = {"python": platform.python_version()}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            numbers[name] = version(name)
    return numbers


def provenance(package: Path | None = None) -> Provenance:
    """The commit and versions of the code that runs; a `ConfigError` if git cannot tell.

    Ask before a run starts. Any modified, staged or untracked file of the checkout counts as changed, ledgers
    and pages apart. The package is by default the mars_env that is imported.
    """
    folder = (package or Path(__file__).parents[1]).resolve()
    in_checkout = any((parent / ".git").exists() for parent in folder.parents)
    # The package may be installed into an environment that lies in another checkout.
    if not in_checkout or not git(folder, "ls-files", "--", "__init__.py"):
        return Provenance(None, versions())
    commit = git(folder, "rev-parse", "HEAD")
    outputs = [f":(top,exclude,glob){pattern}" for pattern in OUTPUTS]
    changed = git(folder, "status", "--porcelain", "-uall", "--", ":/", *outputs)
    return Provenance(commit + DIRTY if changed else commit, versions())


def git(folder: Path, *words: str) -> str:
    """What git prints in a folder; a `ConfigError` if it fails."""
    # Variables such as GIT_DIR, which hooks set, would point git at another repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        process = subprocess.run(
            ["git", *words], cwd=folder, env=env, capture_output=True, text=True, errors="replace", check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        message = getattr(error, "stderr", None) or str(error)
        raise ConfigError(f"git cannot tell the commit of {folder}: {message.strip()}") from error
    return process.stdout.strip()
