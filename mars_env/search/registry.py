"""Search algorithms by name."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from mars_env.errors import ConfigError, explained
from mars_env.identity import full_name
from mars_env.lazy import import_object
from mars_env.search.ab_mcts import ABMCTSA
from mars_env.search.algorithm import Algorithm
from mars_env.search.baselines import BestOfN, Refinement
from mars_env.search.tree_of_thoughts import TreeOfThoughts
from mars_env.search.treequest import TreeQuest
from mars_env.search.uct import UCT

ALGORITHMS: dict[str, Any] = {
    "ab-mcts-a": ABMCTSA,
    "uct": UCT,
    "best-of-n": BestOfN,
    "refinement": Refinement,
    "tree-of-thoughts": TreeOfThoughts,
}
"""Algorithms by name: classes whose constructors take agents and their own `Settings`."""


def register_algorithm(name: str, algorithm: Any) -> None:
    """Register your own algorithm by name in this process; other processes name it as ``module:Class``.

    It is a class with a pydantic model `Settings` and the constructor ``Class(agents, settings)``.
    Registering the same class again replaces it, as a notebook must.

    Example:
        >>> register_algorithm("uct", BestOfN)
        Traceback (most recent call last):
        mars_env.errors.ConfigError: the search 'uct' exists: take another name
    """
    if ":" in name:
        raise ConfigError(f"the name of a search has no colon, got {name!r}")
    if full_name(ALGORITHMS.get(name, algorithm)) != full_name(algorithm):
        raise ConfigError(f"the search {name!r} exists: take another name")
    ALGORITHMS[name] = algorithm


def make_algorithm(name: str, options: Mapping[str, Any], agents: Sequence[str], seed: int) -> Algorithm:
    """Make one of `ALGORITHMS`, ``"treequest:<class>"``, or ``"module:Class"``, a class as they are.

    TreeQuest alone uses the seed; the others sample from the generator that they are given. A ConfigError for
    an unknown name or option.
    """
    prefix, colon, rest = name.partition(":")
    if colon and prefix == "treequest":
        return TreeQuest(rest, options, agents, seed)
    algorithm = import_object(name) if colon else ALGORITHMS.get(name)
    if algorithm is None:
        names = ", ".join(ALGORITHMS)
        more = "treequest:<class> or my_module:MyAlgorithm"
        raise ConfigError(f"there is no search {name!r}: take {names}, {more}")
    if not hasattr(getattr(algorithm, "Settings", None), "model_validate"):
        raise ConfigError(
            f"the search {name!r} is not an algorithm: it must be a class with a pydantic model "
            "`Settings` and the constructor Class(agents, settings)"
        )
    with explained(ConfigError, f"the search {name!r} does not take these options", ValidationError):
        settings = algorithm.Settings.model_validate(dict(options))
    return algorithm(agents, settings)
