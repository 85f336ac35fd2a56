"""Finds problem sets by name: the library's own, a user's, and those of installed packages."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

from mars_env.errors import ConfigError
from mars_env.lazy import declared, imported
from mars_env.problems.problem_set import ProblemSet
from mars_env.text import suggestion

ENTRY_POINTS = "mars_env.problems"
"""The entry-point group in which installed packages offer sets: name -> loader or `ProblemSet`."""

Loader = Callable[..., ProblemSet]
"""Called as ``loader(seed=..., split=..., **options)``; ``split`` is None if the user chose none."""

_EMBEDDED = {
    "aime": "mars_env.problems.aime",
    "arithmetic": "mars_env.problems.arithmetic",
    "nibbles": "mars_env.problems.code_nibbles",
    "programs": "mars_env.problems.programs",
    "reports": "mars_env.problems.reports",
    "subset-sum": "mars_env.problems.subset_sum",
    **dict.fromkeys(
        ("aime24", "aime25", "beyondaime", "math500", "gsm8k", "dapo-math-17k"), "mars_env.problems.hub"
    ),
    **dict.fromkeys(
        ("humaneval", "mbpp", "apps", "taco", "codecontests", "deepcoder", "livecodebench"),
        "mars_env.problems.code_hub",
    ),
}
"""The library's own sets: the module of each name, imported on use; its ``LOADERS`` contains the loader."""

WITH_DOCUMENTS = frozenset({"reports"})
"""Sets without questions: documents, for rules whose agents ask about them."""

_loaders: dict[str, Loader] = {}
"""The sets of users."""

_MODULE_NAME = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[\w.-]+)")


def register_problem_set(name: str, loader: Loader) -> None:
    """Make a set known by name to `load_problems`, `make` and the command line.

    Args:
        name: Letters, digits, ``_``, ``-`` and ``.``; lower case by convention.
        loader: Called as ``loader(seed=..., split=..., **options)`` each time the set is loaded.

    Raises:
        ConfigError: The name is malformed, or another loader has it.

    Example:
        >>> from mars_env.types import Problem
        >>> def tiny(*, seed=0, split=None):
        ...     return ProblemSet("tiny", [Problem("tiny/0", "What is 1 + 1?", "2")])
        >>> register_problem_set("tiny-doctest", tiny)
        >>> "tiny-doctest" in list_problem_sets()
        True
    """
    if not re.fullmatch(r"[\w.-]+", name):
        raise ConfigError(f"a problem set's name may contain letters, digits, '_', '-' and '.', got {name!r}")
    if name in _EMBEDDED:
        raise ConfigError(f"the problem set name {name!r} is taken; choose another")
    known = _loaders.setdefault(name, loader)
    if known is not loader and _origin(known) != _origin(loader):
        raise ConfigError(f"the problem set name {name!r} is taken; choose another")
    _loaders[name] = loader


def list_problem_sets() -> list[str]:
    """Names of all sets that can be loaded without a path.

    Example:
        >>> {"aime", "aime25", "arithmetic"} <= set(list_problem_sets())
        True
    """
    return sorted({*_EMBEDDED, *_loaders, *declared(ENTRY_POINTS)})


def is_module_name(name: str) -> bool:
    """Whether a name has the form ``my_module:name``.

    Example:
        >>> is_module_name("my_package.sets:riddles"), is_module_name("aime25"), is_module_name("a/b.jsonl")
        (True, False, False)
    """
    return _MODULE_NAME.fullmatch(name) is not None


def find_loader(name: str) -> Loader:
    """The loader of a registered name, an entry point, or ``my_module:name``.

    ``my_module:name`` imports the module, then takes the set that it registered as ``name``, or otherwise
    its attribute ``name``: a loader or a `ProblemSet`. What another package registered as ``name`` is taken
    only if the module has no such attribute.

    Raises:
        ConfigError: There is no set with this name.
    """
    if name in _EMBEDDED:
        embedded: Loader = importlib.import_module(_EMBEDDED[name]).LOADERS[name]
        return embedded
    if name in _loaders:
        return _loaders[name]
    match = _MODULE_NAME.fullmatch(name)
    if match:
        return _from_module(match["module"], match["name"])
    if name in (points := declared(ENTRY_POINTS)):
        return _as_loader(points[name].load(), f"the entry point {name!r}")
    known = list_problem_sets()
    raise ConfigError(
        f"there is no problem set {name!r}{suggestion(name, known) or '.'} Known: {', '.join(known)}; "
        "or give a .jsonl or .parquet file, or my_module:name"
    )


def held_out_by_default(name: str) -> str | None:
    """The split that a real set gives unless told otherwise, if it has another one for training; else None.

    Example:
        >>> held_out_by_default("gsm8k"), held_out_by_default("aime25"), held_out_by_default("aime")
        ('test', None, None)
    """
    from mars_env.problems.hub_set import RemoteSet

    chosen = getattr(find_loader(name), "__self__", None) if name in _EMBEDDED else None
    if not isinstance(chosen, RemoteSet) or chosen.default == "train" or "train" not in chosen.known_splits:
        return None
    return chosen.default


def call_loader(name: str, loader: Loader, /, **options: Any) -> ProblemSet:
    """Call a loader for `load_problems`, which takes ``n`` itself; a wrong option becomes a `ConfigError`.

    Raises:
        ConfigError: It does not accept one of the options, or does not return a `ProblemSet`.
    """
    signature = inspect.signature(loader)
    try:
        signature.bind(**options)
    except TypeError as error:
        takes = ", ".join(["n", *(option for option in signature.parameters if option != "path")])
        raise ConfigError(f"problem set {name!r}: {error}; its options are: {takes}") from error
    found: Any = loader(**options)
    if not isinstance(found, ProblemSet):
        raise ConfigError(
            f"the loader of the problem set {name!r} must return a ProblemSet, not {type(found).__name__}"
        )
    return found


def _origin(loader: Loader) -> tuple[Any, ...]:
    # A module that is imported again registers the same function again, which is not a clash.
    return (getattr(loader, "__module__", None), getattr(loader, "__qualname__", id(loader)))


def _from_module(module_name: str, name: str) -> Loader:
    module = imported(module_name, f"{module_name}:{name}")
    registered = _loaders.get(name)
    if registered is not None and (_package(registered) == _package(module) or not hasattr(module, name)):
        return registered
    if not hasattr(module, name):
        raise ConfigError(f"the module {module_name!r} neither registers nor defines a problem set {name!r}")
    return _as_loader(getattr(module, name), f"{module_name}:{name}")


def _package(of: Any) -> str:
    name = of.__name__ if inspect.ismodule(of) else getattr(of, "__module__", None)
    return str(name).partition(".")[0]


def _as_loader(found: Any, where: str) -> Loader:
    if isinstance(found, ProblemSet):
        whole: ProblemSet = found
        return lambda *, seed, split: whole
    if callable(found):
        loader: Loader = found
        return loader
    raise ConfigError(f"{where} must be a ProblemSet or a loader, not {type(found).__name__}")
