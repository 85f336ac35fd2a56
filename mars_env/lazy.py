"""Imports on first use: names of packages, objects named by a string, work that waits for another package."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mars_env.errors import ConfigError, MissingExtra, explained

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from importlib.metadata import EntryPoint
    from types import ModuleType

_IMPORT = re.compile(r"^    from (\S+) import (\w+) as \2$", re.M)
_OBJECT = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__``, ``__all__`` of a package that imports its names on first use (PEP 562).

    The names are those that its source imports for type checkers: ``from module import Name as Name``.

    Example:
        >>> import mars_env.viewer
        >>> getattr_, _, names = lazy_names("mars_env.viewer")
        >>> getattr_("render_page").__module__, names
        ('mars_env.viewer.page', ['Display', 'Episode', 'render_page', 'write_page'])
    """
    spec: Any = sys.modules[package].__spec__
    imports = _IMPORT.findall(spec.loader.get_source(package))
    modules = {name: module for module, name in imports}
    names = sorted(modules)

    def find(name: str) -> Any:
        if name in modules:
            found = getattr(import_module(modules[name]), name)
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
    """Call a function once a module has been imported: now, or right after its import."""
    if module in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Watch(module, then))


class _Watch:
    """A finder that lets later ones find one module."""

    def __init__(self, module: str, then: Callable[[], None]) -> None:
        self._module, self._then = module, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if fullname != self._module or self not in sys.meta_path:
            return None
        later = sys.meta_path[sys.meta_path.index(self) + 1 :]
        spec = next((found for each in later if (found := each.find_spec(fullname, path, target))), None)
        if spec is not None and spec.loader is not None:
            self._watch(spec.loader)
        return spec

    def _watch(self, loader: Any) -> None:
        load = loader.exec_module

        def exec_module(module: "ModuleType") -> None:
            load(module)
            vars(loader).pop("exec_module", None)
            sys.meta_path.remove(self)
            self._then()

        loader.exec_module = exec_module


def import_object(name: str) -> Any:
    """The object named by ``"module:attribute"`` (or ``module:a.b``); a `ConfigError` if there is none."""
    if not is_object_name(name):
        raise ConfigError(f"{name!r} is not of the form my_module:my_object")
    module, _, attribute = name.partition(":")
    value: Any = imported(module, name)
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise ConfigError(f"the module {module!r} has no {attribute!r}")
        value = getattr(value, part)
    return value


def is_object_name(name: str) -> bool:
    """Whether a string has the form that `import_object` takes."""
    return _OBJECT.fullmatch(name) is not None


def imported(module: str, name: str) -> "ModuleType":
    """A module that a user's `name` needs; else a `ConfigError`."""
    cannot = f"the module {module!r} of {name!r} cannot be imported"
    with explained(ConfigError, cannot, ImportError, ValueError):
        return import_module(module)


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Inside, an import that fails is a `MissingExtra` that says what needs it, and which extra brings it."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(f"{what}: pip install 'mars-env[{extra}]'") from error


@cache
def declared(group: str) -> "Mapping[str, EntryPoint]":
    """The entry points of a group that installed packages declare, by name."""
    from importlib.metadata import entry_points  # slow to import, and seldom needed

    return {point.name: point for point in entry_points(group=group)}
