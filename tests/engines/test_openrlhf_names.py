"""What we touch of OpenRLHF is where it was: a new version that moves something fails here, and says what."""

import dataclasses
import importlib
import inspect
import json
from pathlib import Path

NAMES = Path(__file__).with_name("openrlhf_names.json")


def moved():
    """What is not as openrlhf_names.json says, null for parameters or fields that do not matter."""
    found = []
    for path, expected in json.loads(NAMES.read_text(encoding="utf-8")).items():
        module, _, name = path.partition(":")
        value = importlib.import_module(module)
        try:
            for part in name.split("."):
                value = getattr(_plain(value), part)
        except AttributeError as error:
            found.append(f"{path}: {error}")
            continue
        if expected is not None and (parameters := _parameters(value)) != expected:
            found.append(f"{path} has {parameters}, not {expected}")
    return found


def _plain(value):
    """The class behind a Ray actor."""
    made = getattr(value, "__ray_metadata__", None)
    return made.modified_class.__ray_actor_class__ if made else value


def _parameters(value):
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    return [name for name in inspect.signature(value).parameters if name != "_ray_trace_ctx"]  # Ray's own


def test_every_name_that_is_touched_is_where_it_was(shim):
    assert moved() == []
