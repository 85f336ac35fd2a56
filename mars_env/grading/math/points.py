"""The points at which expressions are compared."""

from __future__ import annotations

import random
from fractions import Fraction

from mars_env.grading.math.nodes import Node

COUNTERS = frozenset("kmnKMN")
"""Names that stand for an integer where nothing is said about them."""


def sample_points(names: frozenset[str]) -> list[dict[str, Fraction]]:
    """Points at which expressions are compared: positive ones of several sizes, then negative ones."""
    rng = random.Random(20_04)
    ranges = (
        [(0.05, 0.95)] * 4
        + [(1.05, 3)] * 4
        + [(4, 12)] * 2
        + [(20, 60), (2000, 9000)]
        + [(-0.95, -0.05), (-3, -1), (-9, -4)] * 2
        + [(-5000, -1000)]
    )
    points = [{n: _random(rng, low, high) for n in sorted(names)} for low, high in ranges]
    points += [{n: _random(rng, -3, 3) for n in sorted(names)} for _ in range(6)] if len(names) > 1 else []
    points += [{n: _random(rng, 0.1, 4) for n in sorted(names)} for _ in range(4)] if len(names) > 1 else []
    return points


def integer_points(names: frozenset[str]) -> list[dict[str, Fraction]]:
    """Points with positive integers, for expressions that have values only there."""
    rng = random.Random(20_06)
    if len(names) == 1:
        (name,) = names
        return [{name: Fraction(k)} for k in range(1, 14)]
    return [{n: Fraction(rng.randint(1, 9)) for n in sorted(names)} for _ in range(24)]


def whole_points(names: frozenset[str], *nodes: Node) -> list[dict[str, Fraction]]:
    """Points with small integers, and with integers around the numbers in the expressions."""
    rng = random.Random(20_08)
    written = {
        abs(c.value) for n in nodes for c in n.walk() if c.kind == "num" and isinstance(c.value, Fraction)
    }
    near = [int(v) + k for v in sorted(written)[:12] for k in range(-2, 3) if v < 10**6]
    values = sorted({*range(-6, 41), *near, *(2 * v + 1 for v in near), 97, 1000, 1001})
    if len(names) == 1:
        (name,) = names
        return [{name: Fraction(v)} for v in values]
    small = [{n: Fraction(rng.randint(-4, 12)) for n in sorted(names)} for _ in range(60)]
    return small + [{n: Fraction(rng.choice(values)) for n in sorted(names)} for _ in range(60)]


def _random(rng: random.Random, low: float, high: float) -> Fraction:
    return Fraction(rng.randint(int(low * 2**40), int(high * 2**40)), 2**40)
