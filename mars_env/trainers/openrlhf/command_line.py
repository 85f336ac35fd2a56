"""Flags of OpenRLHF's command line as a mapping, from the tables of a run file and back to words."""

from collections.abc import Mapping, Sequence
from typing import Any

from mars_env.errors import ConfigError

Flags = dict[str, list[str]]
"""Values by flag, e.g. ``{"--train.batch_size": ["64"]}``; a switch has none."""


def as_words(flags: Mapping[str, Sequence[str]]) -> list[str]:
    """The words of a command line."""
    words: list[str] = []
    for flag, values in flags.items():
        if len(values) == 1 and values[0].startswith("-"):
            words.append(f"{flag}={values[0]}")
        else:
            words += [flag, *values]
    return words


def flags_of(tables: Mapping[str, Any], prefix: str = "--") -> Flags:
    """The flags that the tables of a file stand for: ``true`` is a switch, ``false`` no flag.

    Example:
        >>> flags_of({"vllm": {"enable_sleep": True}, "train": {"num_nodes": 2}, "actor.optim": "adam"})
        {'--vllm.enable_sleep': [], '--train.num_nodes': ['2'], '--actor.optim': ['adam']}
    """
    flags: Flags = {}
    for key, value in tables.items():
        flag = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flags |= flags_of(value, f"{flag}.")
        elif value is not False and value is not None:
            flags[flag] = _values(flag, value)
    return flags


def _values(flag: str, value: Any) -> list[str]:
    if value is True:
        return []
    values = list(value) if isinstance(value, list | tuple) else [value]
    if not values or not {type(item) for item in values} <= {str, int, float}:
        raise ConfigError(f"openrlhf.{flag[2:]} takes strings and numbers, got {value!r}")
    return [str(item) for item in values]
