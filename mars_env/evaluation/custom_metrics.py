"""Custom metrics: registered once, they stand in every report and comparison after it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from mars_env.errors import ConfigError
from mars_env.evaluation.statistics import Scale
from mars_env.evaluation.titles import TITLES
from mars_env.text import logger, raised, shown
from mars_env.types import Tree

log = logger(__name__)

Measure = Callable[[Tree], float | bool | None]
"""What a tree counts for; None where the metric says nothing of it."""


@dataclass(frozen=True, slots=True)
class CustomMetric:
    """A metric that a user has registered.

    Attributes:
        name: Its key in reports.
        of: Measures one tree.
        title: What a reader sees.
        scale: ``"rate"`` for what lies in [0, 1], ``"amount"`` for what is never negative, else ``"value"``.
    """

    name: str
    of: Measure
    title: str
    scale: Scale


_REGISTERED: dict[str, CustomMetric] = {}


def register_metric(name: str, of: Measure, *, title: str = "", scale: Scale = "value") -> None:
    """Register a metric. Its value is the mean over problems of the mean over their trees.

    Args:
        name: Its key in `Report.metrics`; a later registration of the same name replaces it.
        of: Measures one tree: a number, True or False, or None where it says nothing of the tree.
        title: What a reader sees; by default the name.
        scale: ``"rate"`` for what lies in [0, 1], ``"amount"`` for what is never negative, else ``"value"``.

    Raises:
        ConfigError: The name is no word, or that of a metric of the library.

    Example:
        >>> from mars_env.evaluation import build_report
        >>> from mars_env.types import Action, Problem, Turn
        >>> register_metric("answer_length", lambda tree: len(tree.turns[-1].text), scale="amount")
        >>> turn = Turn("p#0", "0", None, "", "solver_0", "", "p", Action("four"))
        >>> tree = Tree("p#0", Problem("p", "2 + 2?", "4"), (turn,), final="0")
        >>> report = build_report([tree], title="t", problem_set="s", generated=False)
        >>> report.metrics["answer_length"].estimate.value
        4.0
        >>> remove_metric("answer_length")
    """
    if not name.isidentifier():
        raise ConfigError(f"a metric's name is one word, such as answer_length, not {shown(name)}")
    if name in TITLES:
        raise ConfigError(f"{name!r} is a metric of the library: choose another name")
    if not callable(of):
        raise ConfigError(f"the metric {name!r} needs a function of a tree, not {shown(of)}")
    if scale not in ("rate", "amount", "value"):
        raise ConfigError(f"the metric {name!r}: a scale is 'rate', 'amount' or 'value', not {shown(scale)}")
    _REGISTERED[name] = CustomMetric(name, of, title or name, scale)


def remove_metric(name: str) -> None:
    """Forget a registered metric; nothing happens if there is none of the name."""
    _REGISTERED.pop(name, None)


def registered_metrics() -> Mapping[str, CustomMetric]:
    """The registered metrics by name, in the order of their registration."""
    return MappingProxyType(_REGISTERED)


def custom_values(trees: Sequence[Tree]) -> dict[str, list[float]]:
    """What the registered metrics say of some trees. A tree that one fails on is left out and logged."""
    found: dict[str, list[float]] = {}
    for metric in _REGISTERED.values():
        for tree in trees:
            try:
                value = _checked(metric, metric.of(tree))
            except Exception as error:  # a user's function may raise anything; the run must not be lost
                log.warning("metric %s left tree %s out: %s", metric.name, tree.id, raised(error))
                continue
            if value is not None:
                found.setdefault(metric.name, []).append(value)
    return found


def _checked(metric: CustomMetric, value: float | bool | None) -> float | None:
    if value is None:
        return None
    number = float(value)
    least = -math.inf if metric.scale == "value" else 0.0
    most = 1.0 if metric.scale == "rate" else math.inf
    if not math.isfinite(number) or not least <= number <= most:
        raise ValueError(f"{number} does not fit the scale {metric.scale!r}")
    return number
