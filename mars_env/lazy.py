"""Imports on first use: names of packages, objects named by a text, work that waits for another package."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mars_env.errors import ConfigError

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from importlib.metadata import EntryPoint
    from types import ModuleType

_OBJECT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def lazy_names(
    package: str, places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__``, ``__all__`` of a package that imports its names on first use (PEP 562).

    The package's own modules are found too, whether or not they have been imported.

    Args:
        package: The package's ``__name__``.
        places: Maps each public name to its module.

    Example:
        >>> getattr_, _, names = lazy_names("mars_env", {"Problem": "mars_env.types"})
        >>> getattr_("Problem").__name__, names
        ('Problem', ['Problem'])
    """
    names = sorted(places)

    def find(name: str) -> Any:
        if name in places:
            found = getattr(import_module(places[name]), name)
            setattr(sys.modules[package], name, found)  # later look-ups find it directly
            return found
        try:
            if not name.startswith("_"):
                return import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":
                raise
        raise AttributeError(f"{package} has no attribute {name!r}; it has {', '.join(names)}")

    return find, lambda: names, names


def after_import(module: str, then: Callable[[], None]) -> None:
    """Call a function once a module has been imported: now, or right after its import.

    Args:
        module: Its full name.
        then: The function. Its errors propagate to the code that imports the module.

    Example:
        >>> after_import("sys", lambda: print("sys is there"))
        sys is there
    """
    if module in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Watch(module, then))


class _Watch:
    """A finder for one module: lets the later finders find it, and wraps the loader that they return."""

    def __init__(self, module: str, then: Callable[[], None]) -> None:
        self.module = module
        self.then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.module or self not in sys.meta_path:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                wrapped: Any = spec.loader and _Loader(spec.loader, self)
                spec.loader = wrapped
                return spec
        return None


class _Loader:
    """Loads a module with its own loader, restores that loader, and calls the function."""

    def __init__(self, loader: Any, watch: _Watch) -> None:
        self._loader = loader
        self._watch = watch

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        sys.meta_path.remove(self._watch)
        self._watch.then()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def import_object(name: str) -> Any:
    """The object named by ``"module:attribute"``, which may be an attribute of an attribute.

    Raises:
        ConfigError: The name has another form, or there is no such module or attribute.

    Example:
        >>> import_object("mars_env.envs.rewards:outcome").__name__
        'outcome'
    """
    if not is_object_name(name):
        raise ConfigError(f"{name!r} is not of the form my_module:my_object")
    module, _, attribute = name.partition(":")
    found: Any = imported(module, name)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"the module {module!r} has no {attribute!r}")
        found = getattr(found, part)
    return found


def is_object_name(name: str) -> bool:
    """Whether a string has the form that `import_object` takes.

    Example:
        >>> is_object_name("my_package.agents:solver"), is_object_name("aime25"), is_object_name("host:80")
        (True, False, False)
    """
    return _OBJECT.fullmatch(name) is not None


def imported(module: str, name: str) -> ModuleType:
    """A module that a name of the user needs.

    Raises:
        ConfigError: It cannot be imported; says for which name.
    """
    try:
        return import_module(module)
    except (ImportError, ValueError) as error:
        raise ConfigError(f"the module {module!r} of {name!r} cannot be imported: {error}") from error


@cache
def declared(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group that installed packages declare, by name."""
    from importlib.metadata import entry_points  # slow to import, and seldom needed

    return {point.name: point for point in entry_points(group=group)}
