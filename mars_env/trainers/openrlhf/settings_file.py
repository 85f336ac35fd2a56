"""A run's flags in a TOML file: a table for each group of flags, a key for each flag."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.settings import PREFIX

FLAG: Final = "--config"
"""``--config FILE``: the flags of the file, under those of the command line."""


class _Number(float):
    """A float that prints as it was written: ``1e-6`` stays ``1e-6``."""

    written: str

    def __new__(cls, written: str) -> Self:
        number = super().__new__(cls, written)
        number.written = written
        return number

    def __str__(self) -> str:
        return self.written


def with_file(argv: Sequence[str]) -> tuple[list[str], Path | None]:
    """The command line with the flags of its settings file before its own, and the file if there is one.

    A flag of the command line replaces the file's. ``--NAME=false`` turns off what the file switches on.

    Args:
        argv: The launcher's flags.

    Raises:
        ConfigError: The file is missing, is no TOML, or holds what no flag can take.

    Example:
        >>> with_file(["--mars.env", "aime-solve", "--actor.adam.lr", "1e-6"])
        (['--mars.env', 'aime-solve', '--actor.adam.lr', '1e-6'], None)
    """
    path, rest = _split(argv)
    if path is None:
        return rest, None
    told = _read(path)
    given = {word.partition("=")[0] for word in rest if word.startswith("--")}
    off = {f"{flag}=false" for flag, values in told.items() if not values}
    words = [word for flag, values in told.items() if flag not in given for word in (flag, *values)]
    return [*words, *(word for word in rest if word not in off)], path


def import_beside(file: Path) -> None:
    """Modules in the folder of a file can be imported, in this process and in those that it starts."""
    folder = str(file.parent.absolute())
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))


def flags_of(tables: Mapping[str, Any]) -> dict[str, list[str]]:
    """The flags that the tables of a file stand for, each with its values.

    ``true`` is a flag without a value, ``false`` no flag, a list several values. In the table ``mars`` every
    key is one flag, and a table or list its value.

    Args:
        tables: The contents of the file.

    Raises:
        ConfigError: A value is of a type that no flag takes.

    Example:
        >>> flags_of({"mars": {"env": "aime-solve", "options": {"rounds": 2}},
        ...           "train": {"colocate_all": True, "batch_size": 64}, "actor": {"adam": {"lr": 0.5}}})
        {'--mars.env': ['aime-solve'], '--mars.options': ['{"rounds": 2}'], '--train.colocate_all': [], \
'--train.batch_size': ['64'], '--actor.adam.lr': ['0.5']}
    """
    found: dict[str, list[str]] = {}
    for name, table in tables.items():
        if f"--{name}." == PREFIX and isinstance(table, Mapping):
            found |= {f"{PREFIX}{key}": [_text(value)] for key, value in table.items()}
        else:
            found.update(_flattened(f"--{name}", table))
    return found


def _flattened(flag: str, value: Any) -> Iterator[tuple[str, list[str]]]:
    """The flags below a key."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flattened(f"{flag}.{key}", inner)
    elif isinstance(value, list) and value:
        yield flag, [_scalar(flag, entry) for entry in value]
    elif isinstance(value, bool):
        if value:
            yield flag, []
    else:
        yield flag, [_scalar(flag, value)]


def _scalar(flag: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ConfigError(f"{flag} takes texts and numbers, got {value!r}")
    return str(value)


def _text(value: Any) -> str:
    """A value of the team's settings as the command line gives it."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _split(argv: Sequence[str]) -> tuple[Path | None, list[str]]:
    """The file that a command line names, and the other words."""
    rest: list[str] = []
    files: list[str] = []
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name != FLAG:
            rest.append(word)
            continue
        files.append(value if equals else next(words, ""))
    if len(files) > 1:
        raise ConfigError(f"one {FLAG} is enough, got {', '.join(files)}")
    if files and not files[0]:
        raise ConfigError(f"{FLAG} needs a file")
    return (Path(files[0]) if files else None), rest


def _read(path: Path) -> dict[str, list[str]]:
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=_Number)
    except OSError as error:
        raise ConfigError(f"the settings file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # TOML's mistakes, and bytes that are no text
        raise ConfigError(f"the settings file {path} is no TOML: {error}") from error
    try:
        return flags_of(told)
    except ConfigError as error:
        raise ConfigError(f"the settings file {path}: {error}") from error
