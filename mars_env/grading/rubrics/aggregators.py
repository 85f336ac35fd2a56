"""From verdicts on criteria to one number: aggregators that compose.

Rubric Anchors (arXiv 2508.12790) describes veto, saturation, interaction and shaping in words only. **The
formulas are ours.** f is the fraction of a criterion (1 met, 0 not met, a tier's value), p its points, v the
value of the inner aggregator:

| aggregator | formula |
|---|---|
| `WeightedSum` | ``sum(f p) / sum(positive p)`` (RuscaRL, arXiv 2508.16949); negative if penalties prevail |
| `Saturate(inner, at, slope)` | inner on ``g(f) / g(1)`` for positive p; ``g(f) = min(f, at) + slope max(f - at, 0)`` |
| `Interaction(inner, i, j, weight)` | ``v + weight f_i f_j`` |
| `Shape(inner, power)` | ``v ** power`` where v > 0, else v |
| `Veto(inner, ids, below, floor)` | ``min(v, floor)`` if a named criterion fails, else v |

A criterion of a veto fails if ``f < below`` where p is positive, and if ``f >= below`` where it is negative.
Put the veto outermost if nothing is to raise the value again. Every aggregator reads the fractions as they
were judged, except that what is inside a `Saturate` reads saturated ones.
"""  # noqa: E501

from collections.abc import Callable
from dataclasses import dataclass

from mars_env.errors import ConfigError
from mars_env.grading.rubrics.rubric import Fractions, Rubric

Aggregator = Callable[[Rubric, Fractions], float]
"""A pure function of a rubric and the fractions of all its criteria; 1 for a perfect response."""


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """The points that a response gets, over all positive points.

    Example:
        >>> rubric = Rubric.from_rows([{"text": "a", "points": 3}, {"text": "b", "points": 1},
        ...                            {"text": "c", "points": -2}])
        >>> WeightedSum()(rubric, {"c1": 1.0, "c2": 0.0, "c3": 1.0})  # (3 - 2) / 4
        0.25
    """

    def __call__(self, rubric: Rubric, fractions: Fractions) -> float:
        """The value; see the table above."""
        return sum(c.points * fractions[c.id] for c in rubric.criteria) / rubric.total


@dataclass(frozen=True, slots=True)
class Saturate:
    """Diminishing returns of one criterion above the threshold `at`, in (0, 1], so that balance pays.

    The slope above it is from 0 to 1; below it, 1.

    Example:
        >>> tiers = [[0, "no"], [0.5, "partly"], [1, "fully"]]
        >>> rubric = Rubric.from_rows([{"text": "a", "tiers": tiers}, {"text": "b", "tiers": tiers}])
        >>> value = Saturate(WeightedSum(), at=0.5, slope=0.5)  # g(0.5) / g(1) = 0.5 / 0.75
        >>> round(value(rubric, {"c1": 0.5, "c2": 0.5}), 4), value(rubric, {"c1": 1.0, "c2": 0.0})
        (0.6667, 0.5)
    """

    inner: Aggregator
    at: float = 0.5
    slope: float = 0.25

    def __post_init__(self) -> None:
        if not 0 < self.at <= 1 or not 0 <= self.slope <= 1:
            raise ConfigError(f"Saturate needs 0 < at <= 1 and 0 <= slope <= 1, got {self.at}, {self.slope}")

    def __call__(self, rubric: Rubric, fractions: Fractions) -> float:
        """The value; see the table above."""

        def g(f: float) -> float:
            return min(f, self.at) + self.slope * max(f - self.at, 0.0)

        shares = {c.id: g(fractions[c.id]) / g(1.0) for c in rubric.criteria if c.points > 0}
        return self.inner(rubric, {**fractions, **shares})


@dataclass(frozen=True, slots=True)
class Interaction:
    """Two criteria that are worth more together (a positive weight) or less (a negative one).

    Example:
        >>> rubric = Rubric.from_rows([{"text": "a"}, {"text": "b"}])
        >>> both = Interaction(WeightedSum(), "c1", "c2", weight=-0.25)
        >>> both(rubric, {"c1": 1.0, "c2": 1.0}), both(rubric, {"c1": 1.0, "c2": 0.0})
        (0.75, 0.5)
    """

    inner: Aggregator
    first: str
    second: str
    weight: float

    def __call__(self, rubric: Rubric, fractions: Fractions) -> float:
        """The value; see the table above."""
        pair = fractions[rubric[self.first].id] * fractions[rubric[self.second].id]
        return self.inner(rubric, fractions) + self.weight * pair


@dataclass(frozen=True, slots=True)
class Shape:
    """A power above 1 stretches differences among high values; one below 1 those among low values.

    Example:
        >>> rubric = Rubric.from_rows([{"text": "a"}, {"text": "b"}, {"text": "c", "points": -1}])
        >>> shaped = Shape(WeightedSum(), power=2)
        >>> shaped(rubric, {"c1": 1, "c2": 0, "c3": 0}), shaped(rubric, {"c1": 0, "c2": 0, "c3": 1})
        (0.25, -0.5)
    """

    inner: Aggregator
    power: float = 2.0

    def __post_init__(self) -> None:
        if not self.power > 0:
            raise ConfigError(f"the power of Shape must be above 0, got {self.power}")

    def __call__(self, rubric: Rubric, fractions: Fractions) -> float:
        """The value; see the table above."""
        value = self.inner(rubric, fractions)
        return float(value**self.power) if value > 0 else value


@dataclass(frozen=True, slots=True)
class Veto:
    """One failed criterion that is not negotiable cancels everything else.

    The `ids` that a rubric does not have are ignored, so that one veto serves many rubrics. Without any, all
    criteria with the tag ``veto`` count.

    Example:
        >>> rubric = Rubric.from_rows([{"text": "a", "points": 4}, {"text": "It flatters.", "points": -1}])
        >>> veto = Veto(WeightedSum(), ("c2",))
        >>> veto(rubric, {"c1": 1.0, "c2": 0.0}), veto(rubric, {"c1": 1.0, "c2": 1.0})
        (1.0, 0.0)
    """

    inner: Aggregator
    ids: tuple[str, ...] = ()
    below: float = 1.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        ids: object = self.ids  # a user may give anything
        if isinstance(ids, str):
            raise ConfigError(f"the ids of Veto are several names, such as ({ids!r},), not one string")

    def __call__(self, rubric: Rubric, fractions: Fractions) -> float:
        """The value; see the table above."""
        value = self.inner(rubric, fractions)
        named = (c for c in rubric.criteria if (c.id in self.ids if self.ids else "veto" in c.tags))
        failed = any((fractions[c.id] < self.below) == (c.points > 0) for c in named)
        return min(value, self.floor) if failed else value
