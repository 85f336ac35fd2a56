"""Run files: TOML, with flags that are paths in it, on top of the recipe that the game names.

mars-env train run.toml --steps 3 --train.learning_rate 1e-6
"""

import json
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mars_env.envs import spec
from mars_env.errors import ConfigError, explained
from mars_env.problems.loading import is_path
from mars_env.trainers.recipes import RunSettings, merged_settings, plain_settings, recipe_of, validated

ALIASES: Final = {"model": "team.model", "credit": "train.credit"}


def load_run(source: str | Path, flags: Mapping[str, Any] | None = None) -> RunSettings:
    """The settings of a run file, or of an environment's id, with the recipe of the game below them.

    Relative paths in a file are those of its folder, and modules in that folder can be imported, also by
    processes that start later.

    Args:
        source: A file ending in ``.toml``, or what `EnvironmentSettings.id` takes.
        flags: More settings, nested as in a file, which replace those of the file; relative to where we are.

    Raises:
        ConfigError: The file cannot be read, or a name or a value in it is wrong.

    Example:
        >>> run = load_run("programs-tree-search", {"sampling": {"max_tokens": 1024}})
        >>> run.train.ratio, run.train.overlong.limit
        ('sequence', 1024)
    """
    source = str(source)
    if source.endswith(".toml"):
        path = Path(source)
        with explained(ConfigError, f"the run file {path}", OSError, ValueError):
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        _import_from(os.path.normpath(path.parent.absolute()))
        tables = with_absolute_paths(tables, path.parent)
    else:
        tables = {"environment": {"id": source}}
    settings = merged_settings(tables, with_absolute_paths(flags or {}, Path()))
    environment = settings.get("environment")
    if not isinstance(environment, Mapping) or not isinstance(environment.get("id"), str):
        raise ConfigError(f"{source} names no environment: set environment.id")
    recipe = recipe_of(spec(environment["id"]))
    merged = _with_room(merged_settings(plain_settings(dict(recipe)), settings), settings)
    return validated(RunSettings, merged, source)


def parse_flags(words: Sequence[str]) -> dict[str, Any]:
    """The nested settings of flags ``--PATH VALUE`` or ``--PATH=VALUE``; a flag without a value is true.

    Values are read as JSON or TOML where they are, else as strings. Several values are a list, and so is
    ``--model`` given again; of another flag the last one counts.

    Example:
        >>> parse_flags(["--steps", "3", "--train.betas=[0.9, 0.95]", "--logging.tensorboard"])
        {'steps': 3, 'train': {'betas': [0.9, 0.95]}, 'logging': {'tensorboard': True}}
    """
    values: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            before = values.pop(name, []) if name == "model" else []
            values[name] = before + [value] * bool(equals)
        elif name:
            values[name].append(word)
        else:
            raise ConfigError(f"{word!r} is neither a run file nor a flag such as --steps 3")
    settings: dict[str, Any] = {}
    for name, texts in values.items():
        parsed = [parse_value(text) for text in texts]
        setting: Any = parsed[0] if len(parsed) == 1 else parsed or True
        for key in reversed(ALIASES.get(name, name).split(".")):
            setting = {key: setting}
        settings = merged_settings(settings, setting)
    return settings


def parse_value(text: str) -> Any:
    """A value of a flag: JSON, an inline table or list of TOML, or the string itself."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    if not text.startswith(("{", "[")):
        return text
    with explained(ConfigError, f"{text!r} is neither JSON nor TOML", ValueError):
        return tomllib.loads(f"value = {text}")["value"]


def with_absolute_paths(tables: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Settings whose paths are absolute: the folder of the run, and files and checkpoints that exist."""

    def existing(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: existing(each) for name, each in value.items()}
        if isinstance(value, list):
            return [existing(each) for each in value]
        is_there = isinstance(value, str) and (folder / value).exists()
        return str((folder / value).absolute()) if is_there else value

    def may_be_path(key: str, value: Any) -> bool:
        """A set's name is no path, also where a folder has it."""
        return key != "problems" or (isinstance(value, str) and is_path(value))

    result, problems = dict(tables), ("problems", "problem_options")
    if isinstance(tables.get("out"), str):
        result["out"] = os.path.normpath((folder / tables["out"]).absolute())
    for name, keys in (("team", ("model",)), ("environment", problems), ("evaluation", problems)):
        table = tables.get(name)
        if isinstance(table, Mapping):
            paths = {key: table[key] for key in keys if key in table and may_be_path(key, table[key])}
            result[name] = {**table, **{key: existing(value) for key, value in paths.items()}}
    return result


def _import_from(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))


def _with_room(merged: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    train, sampling = merged["train"], settings.get("sampling")
    limit = sampling.get("max_tokens") if isinstance(sampling, Mapping) else None
    if not isinstance(limit, int) or not isinstance(train, Mapping):
        return merged
    if not isinstance(overlong := train.get("overlong"), Mapping):
        return merged
    explicit = settings.get("train", {}).get("overlong", {})
    fitting = {**overlong, "limit": limit, "buffer": min(2048, (limit + 1) // 2), **explicit}
    return {**merged, "train": {**train, "overlong": fitting}}
