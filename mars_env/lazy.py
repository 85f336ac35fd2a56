"""Imports on first use: names of packages, and objects that a text names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from mars_env.errors import ConfigError


def lazy_names(
    package: str, places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names live in its modules (PEP 562).

    Args:
        package: The package's ``__name__``.
        places: The module of every public name.

    Example:
        >>> getattr_, _, names = lazy_names("mars_env", {"Problem": "mars_env.types"})
        >>> getattr_("Problem").__name__, names
        ('Problem', ['Problem'])
    """
    names = sorted(places)

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"{package} has no attribute {name!r}; it has {', '.join(names)}")
        found = getattr(import_module(places[name]), name)
        setattr(sys.modules[package], name, found)  # found at once from now on
        return found

    return find, lambda: names, names


def resolve(name: str) -> Any:
    """The object that ``"module:attribute"`` names: how the command line takes a user's own parts.

    Raises:
        ConfigError: The module or the attribute is not there.

    Example:
        >>> resolve("mars_env.envs.rewards:outcome").__name__
        'outcome'
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{name!r} is not of the form 'module:attribute' of something importable: {error}"
        ) from error
