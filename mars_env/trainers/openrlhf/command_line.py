"""The launcher's command line and its settings file, as one mapping of flags to values."""

import json
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mars_env.errors import ConfigError, explained

Flags = dict[str, list[str]]
"""Values by flag, e.g. ``{"--train.batch_size": ["64"]}``; a switch has none. Words before the first flag
have the name ``""``."""

CONFIG: Final = "--config"
"""``--config FILE``: the flags of a TOML file, under those of the command line."""

PREFIX: Final = "--mars."
"""Prefix of the flags that mars_env adds."""


def read_argv(argv: Sequence[str]) -> Flags:
    """The flags of a command line, and below them those of its settings file, if it names one.

    A flag of the command line replaces the file's; ``--NAME=false`` turns off what the file switches on.
    Modules in the folder of the file can be imported, in this process and in those that it starts.

    Raises:
        ConfigError: The file is missing, is not TOML, or holds what no flag can take.

    Example:
        >>> read_argv(["--mars.env=aime-solve", "--actor.adam.betas", "0.9", "0.95"])
        {'--mars.env': ['aime-solve'], '--actor.adam.betas': ['0.9', '0.95']}
    """
    given: Flags = {}
    name = ""
    for word in argv:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            given[name] = [value] if equals else []
        else:
            given.setdefault(name, []).append(word)
    if CONFIG not in given:
        return given
    path = Path(" ".join(given.pop(CONFIG)))
    if path == Path():
        raise ConfigError(f"{CONFIG} needs a file")
    with explained(ConfigError, f"the settings file {path}", OSError, ConfigError, ValueError):
        stored = flags_of(tomllib.loads(path.read_text(encoding="utf-8")))
    folder = str(path.parent.absolute())
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    return {
        flag: values
        for flag, values in (stored | given).items()
        if values != ["false"] or stored.get(flag) != []
    }


def as_words(flags: Mapping[str, Sequence[str]]) -> list[str]:
    """The words of a command line: the inverse of `read_argv`."""
    words: list[str] = []
    for flag, values in flags.items():
        if flag and len(values) == 1 and values[0].startswith("-"):
            words.append(f"{flag}={values[0]}")
        else:
            words += [flag, *values] if flag else values
    return words


def flags_of(tables: Mapping[str, Any], prefix: str = "--") -> Flags:
    """The flags that the tables of a file stand for.

    ``true`` is a switch, ``false`` no flag, a list several values. In the table ``mars`` every key is one
    flag, and a table or list its value.

    Example:
        >>> flags_of({"mars": {"env": "aime-solve", "options": {"rounds": 2}},
        ...           "train": {"colocate_all": True, "batch_size": 64}, "actor": {"adam": {"lr": 0.5}}})
        {'--mars.env': ['aime-solve'], '--mars.options': ['{"rounds": 2}'], '--train.colocate_all': [], \
'--train.batch_size': ['64'], '--actor.adam.lr': ['0.5']}
    """
    found: Flags = {}
    for key, value in tables.items():
        flag = f"{prefix}{key}"
        if prefix == PREFIX:
            found[flag] = [flag_value(value)]
        elif isinstance(value, Mapping):
            found |= flags_of(value, f"{flag}.")
        elif value is not False:
            found[flag] = _values(flag, value)
    return found


def flag_value(value: Any) -> str:
    """A value of the team's settings as a flag has it: strings as they are, others as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _values(flag: str, value: Any) -> list[str]:
    if value is True:
        return []
    values = value if isinstance(value, list) else [value]
    if not values or not {type(each) for each in values} <= {str, int, float}:
        raise ConfigError(f"{flag} takes strings and numbers, got {value!r}")
    return [str(each) for each in values]
