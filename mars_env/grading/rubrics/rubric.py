"""Rubrics: criteria with points for problems that have no single answer.

A rubric is stored with its problem as plain data, ``problem.metadata["rubric"]``. No observation contains
metadata, so agents never see it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mars_env.checks import finite
from mars_env.errors import ConfigError, explained
from mars_env.text import brief
from mars_env.types import Problem

RUBRIC = "rubric"  # key of a problem's metadata

Fractions = Mapping[str, float]
"""By criterion, the share of its points that a response gets: 1 if it is met, 0 if not, a tier's value."""


@dataclass(frozen=True, slots=True)
class Tier:
    """One level of a criterion: the share of the points that it gives, in [0, 1], and what it means."""

    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Criterion:
    """One thing that a response is judged by; a `ConfigError` if a field makes no sense.

    Attributes:
        text: What must hold, in words; for a criterion with negative points, what must not.
        points: What it is worth if it is met; negative for what is undesirable. The weight of a criterion
            with tiers.
        tiers: The levels of a graded criterion, from the lowest to the highest; empty for met or not met.
        check: Name of the program that decides (`mars_env.grading.rubrics.checks`); empty for a judge.
        value: What the program compares with, as plain data.
        tags: Names by which stages and aggregators choose criteria.
    """

    id: str
    text: str
    points: float = 1.0
    tiers: tuple[Tier, ...] = ()
    check: str = ""
    value: Any = None
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        where = f"the criterion {brief(self.id)}"
        if not isinstance(self.id, str) or not self.id:
            raise ConfigError(f"a criterion's id must be a string that is not empty, got {brief(self.id)}")
        if not isinstance(self.text, str) or not (self.text.strip() or self.check):
            raise ConfigError(f"{where} has no text")
        with explained(ConfigError, f"{where}: its points", ValueError):
            points = finite(self.points)
        if not points:
            raise ConfigError(f"{where} has 0 points, so nothing depends on it: leave it out")
        values = [tier.value for tier in self.tiers]
        shares = all(isinstance(value, int | float) and 0 <= value <= 1 for value in values)
        if self.tiers and (not shares or len(values) < 2 or values != sorted(set(values))):
            raise ConfigError(f"{where}: two tiers or more ascend in [0, 1], got {brief(values)}")


@dataclass(frozen=True)
class Rubric:
    """Criteria with different ids, of which one at least has positive points (else a `ConfigError`).

    Example:
        >>> rubric = Rubric.from_rows([{"text": "It names the theorem.", "points": 3},
        ...                            {"text": "It is rude.", "points": -2}])
        >>> [(criterion.id, criterion.points) for criterion in rubric.criteria], rubric.total
        ([('c1', 3.0), ('c2', -2.0)], 3.0)
    """

    criteria: tuple[Criterion, ...]

    def __post_init__(self) -> None:
        ids = [criterion.id for criterion in self.criteria]
        if twice := next((id for id in ids if ids.count(id) > 1), None):
            raise ConfigError(f"the rubric has two criteria with the id {brief(twice)}")
        if not any(criterion.points > 0 for criterion in self.criteria):
            raise ConfigError("a rubric needs at least one criterion with positive points")

    @cached_property
    def total(self) -> float:
        """The sum of all positive points."""
        return sum(criterion.points for criterion in self.criteria if criterion.points > 0)

    def __getitem__(self, id: str) -> Criterion:
        for criterion in self.criteria:
            if criterion.id == id:
                return criterion
        ids = ", ".join(criterion.id for criterion in self.criteria)
        raise ConfigError(f"the rubric has no criterion {brief(id)}; it has {ids}")

    def tagged(self, tags: Sequence[str]) -> "Rubric":
        """The criteria with a tag of one stage; a `ConfigError` if none of them has positive points."""
        tagged = tuple(c for c in self.criteria if not set(tags).isdisjoint(c.tags))
        if not any(criterion.points > 0 for criterion in tagged):
            raise ConfigError(f"no criterion with positive points has the tag {brief(' or '.join(tags))}")
        return Rubric(tagged)

    def rows(self) -> list[dict[str, Any]]:
        """As plain data, for `Problem.metadata`."""
        return [
            {
                "id": c.id,
                "text": c.text,
                "points": c.points,
                **({"tiers": [[tier.value, tier.text] for tier in c.tiers]} if c.tiers else {}),
                **({"check": {c.check: c.value}} if c.check else {}),
                **({"tags": list(c.tags)} if c.tags else {}),
            }
            for c in self.criteria
        ]

    @classmethod
    def from_rows(cls, rows: object) -> "Rubric":
        """A rubric from plain data, a list of criteria; a `ConfigError` says which row is none.

        A row has a ``text`` (or ``criterion``, as in HealthBench) and ``points`` (by default 1), and may have
        an ``id``, ``tags``, ``tiers`` (pairs of a value and a string) and a ``check`` (``{"answer": "4"}``).
        Rows of RuscaRL's release are read too: their tags ``verifier:rule``, ``function:math_verify`` and
        ``parameters:<answer>`` become the check ``answer``.
        """
        if not isinstance(rows, list | tuple):
            raise ConfigError(f"a rubric is a list of criteria, not {type(rows).__name__}")
        return cls(tuple(_criterion(row, f"c{number}") for number, row in enumerate(rows, 1)))

    @classmethod
    def of(cls, problem: Problem) -> "Rubric | None":
        """The rubric of a problem, or None; a `ConfigError` if it cannot be read."""
        rows = problem.metadata.get(RUBRIC)
        if rows is None:
            return None
        with explained(ConfigError, f"the rubric of problem {brief(problem.id)}", ConfigError):
            return cls.from_rows(rows)


def _criterion(row: object, place: str) -> Criterion:
    if not isinstance(row, Mapping):
        raise ConfigError(f"criterion {place} must be an object, not {type(row).__name__}")
    tags = row.get("tags") or ()
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise ConfigError(f"criterion {place}: tags must be a list of strings")
    check = row.get("check") or _released_check(tags)
    if not isinstance(check, Mapping) or len(check) > 1:
        raise ConfigError(f'criterion {place}: check is one name with its value, such as {{"answer": "4"}}')
    (name, value) = next(iter(check.items()), ("", None))
    with explained(ConfigError, f"criterion {place}", TypeError, ValueError):
        return Criterion(
            id=row.get("id", place),
            text=row.get("text", row.get("criterion", "")),
            points=finite(row.get("points", 1.0)),
            tiers=_tiers(row.get("tiers") or ()),
            check=name,
            value=value,
            tags=tuple(tags),
        )


def _tiers(rows: object) -> tuple[Tier, ...]:
    listed: Any = rows if isinstance(rows, list | tuple) else [rows]
    if not all(isinstance(row, list | tuple) and len(row) == 2 for row in listed):
        raise ValueError(f'tiers are pairs of a value and a string, such as [0, "no"], got {brief(rows)}')
    return tuple(Tier(finite(share), str(text)) for share, text in listed)


def _released_check(tags: Sequence[str]) -> Mapping[str, Any]:
    named = dict(tag.partition(":")[::2] for tag in tags)
    if named.get("verifier") != "rule":
        return {}
    if named.get("function") != "math_verify" or "parameters" not in named:
        raise ConfigError(f"a rule that is not known: {brief(', '.join(tags))}")
    return {"answer": named["parameters"]}
