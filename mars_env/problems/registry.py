"""Finds problem sets by name: the library's own, a user's, and those of installed packages."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mars_env.errors import ConfigError
from mars_env.identity import full_name
from mars_env.lazy import declared, import_object, imported
from mars_env.problems.problem_set import ProblemSet
from mars_env.text import first_line, suggestion

if TYPE_CHECKING:
    from mars_env.problems.hub import HubSet

_ENTRY_POINTS = "mars_env.problems"  # installed packages offer sets in this group: loaders or `ProblemSet`s

Loader = Callable[..., ProblemSet]
"""Called as ``loader(seed=..., split=..., **options)``; ``split`` is None if the user chose none."""

_FUNCTIONS = {
    "aime": "aime:aime_problems",
    "arithmetic": "arithmetic:arithmetic_problems",
    "programs": "programs:programs_problems",
    "reports": "reports:reports_problems",
    "livecodebench": "hub_code:live_code_bench",
}
"""The library's sets with their own loaders, imported on use."""
_HUB = {
    **dict.fromkeys(
        ("aime24", "aime25", "beyondaime", "math500", "gsm8k", "dapo-math-17k"), "hub_math:MATH_SETS"
    ),
    **dict.fromkeys(("humaneval", "mbpp", "apps", "taco", "codecontests", "deepcoder"), "hub_code:CODE_SETS"),
}
"""The real sets, each a `HubSet` in the table of this name."""

WITH_DOCUMENTS = frozenset({"reports"})
"""Sets without questions: documents, for rules whose agents ask about them."""

_loaders: dict[str, Loader] = {}  # the sets of users

_MODULE_NAME = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[\w.-]+)")


def register_problem_set(name: str, loader: Loader | ProblemSet) -> None:
    """Make a set or its loader known by name to `load_problems`, `make` and the command line.

    A `ConfigError` if the name is malformed, or another loader has it.

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
    loader = _as_loader(loader, f"the set {name!r}")
    is_built_in = name in _FUNCTIONS or name in _HUB
    # A module that is imported again registers the same function again, which is not a clash.
    if is_built_in or full_name(_loaders.get(name, loader)) != full_name(loader):
        raise ConfigError(f"the problem set name {name!r} is taken; choose another")
    _loaders[name] = loader


def list_problem_sets() -> list[str]:
    """Names of all sets that can be loaded without a path."""
    return sorted({*_FUNCTIONS, *_HUB, *_loaders, *declared(_ENTRY_POINTS)})


def describe_problem_set(name: str) -> str:
    """One line about a set that is known by name: where a real one is from, or what its loader says."""
    if name in _HUB:
        return f"{_hub_set(name).repo} on the Hugging Face hub"
    return first_line(find_loader(name).__doc__)


def is_module_name(name: str) -> bool:
    """Whether a name has the form ``my_module:name``."""
    return _MODULE_NAME.fullmatch(name) is not None


def find_loader(name: str) -> Loader:
    """The loader of a registered name, an entry point, or ``my_module:name``; or a `ConfigError`.

    ``my_module:name`` imports the module, then takes its attribute ``name``, a loader or a `ProblemSet`, or
    else the set that is registered as ``name``.
    """
    if name in _HUB:
        return _hub_set(name).load
    if name in _FUNCTIONS:
        return _imported(_FUNCTIONS[name])
    if name in _loaders:
        return _loaders[name]
    if match := _MODULE_NAME.fullmatch(name):
        return _from_module(match["module"], match["name"])
    if name in (points := declared(_ENTRY_POINTS)):
        return _as_loader(points[name].load(), f"the entry point {name!r}")
    names = list_problem_sets()
    others = f"Known: {', '.join(names)}; or give a .jsonl or .parquet file, or my_module:name"
    raise ConfigError(f"there is no problem set {name!r}{suggestion(name, names) or '.'} {others}")


def held_out_by_default(name: str) -> str | None:
    """The split that a real set gives by default, if it has another one for training; else None."""
    if name not in _HUB:
        return None
    hub_set = _hub_set(name)
    return hub_set.default if hub_set.default != "train" and "train" in hub_set.splits else None


def kind_of_set(name: str) -> str | None:
    """The kind of a real set's problems, which is known before they are downloaded; None for other sets."""
    module, _, _ = {**_FUNCTIONS, **_HUB}.get(name, "").partition(":")
    return {"hub_math": "math", "hub_code": "code"}.get(module)


def _imported(place: str) -> Any:
    return import_object(f"mars_env.problems.{place}")


def _hub_set(name: str) -> "HubSet":
    return _imported(_HUB[name])[name]


def _from_module(module_name: str, name: str) -> Loader:
    module = imported(module_name, f"{module_name}:{name}")
    if hasattr(module, name):
        return _as_loader(getattr(module, name), f"{module_name}:{name}")
    if name in _loaders:
        return _loaders[name]
    raise ConfigError(f"the module {module_name!r} neither registers nor defines a problem set {name!r}")


def _as_loader(loader: Any, where: str) -> Loader:
    if isinstance(loader, ProblemSet):
        whole: ProblemSet = loader
        return lambda *, seed, split: whole
    if callable(loader):
        return loader
    raise ConfigError(f"{where} must be a ProblemSet or a loader, not {type(loader).__name__}")
