"""Geometry templates: answers from exact coordinates, or by counting cells and points."""

import math
import random
from fractions import Fraction
from itertools import combinations, product

from mars_env.problems.aime.template import LOWEST_TERMS, Question, need, parts_sum, template

TRIPLES = (
    (3, 4, 5), (5, 12, 13), (8, 15, 17), (7, 24, 25), (20, 21, 29), (12, 35, 37), (9, 40, 41), (28, 45, 53),
)  # fmt: skip


def apex(a: int, b: int, c: int) -> tuple[Fraction, Fraction]:
    """The corner A of a triangle of sides a, b, c with B = (0, 0), C = (a, 0): its x, and its y squared."""
    x = Fraction(a * a + c * c - b * b, 2 * a)
    return x, c * c - x * x


def _triangle(rng: random.Random, high: int) -> tuple[int, int, int]:
    a, b, c = (rng.randint(4, high) for _ in range(3))
    need(len({a, b, c}) == 3 and 2 * max(a, b, c) < a + b + c)
    return a, b, c


@template("geometry", level=1)
def foot_of_the_altitude(rng: random.Random) -> Question:
    legs = rng.choice(TRIPLES)[:2]
    scale = rng.randint(1, 40)
    a, b = (leg * scale for leg in rng.sample(legs, 2))
    # C = (0, 0), A = (b, 0), B = (0, a): the foot is A + t (B - A) with C - foot at right angles to AB.
    t = Fraction(b * b, a * a + b * b)
    x, y = b - t * b, t * a
    squared = x * x + y * y
    height = Fraction(math.isqrt(squared.numerator), math.isqrt(squared.denominator))
    statement = (
        f"Triangle $ABC$ has a right angle at $C$, and $BC = {a}$ and $CA = {b}$. The distance from $C$ to"
        f" the line $AB$ {LOWEST_TERMS}"
    )
    return Question(statement, parts_sum(height), {"a": a, "b": b})


@template("geometry", level=1, least=1)
def painted_block(rng: random.Random) -> Question:
    size = sorted((rng.randint(3, 12) for _ in range(3)), reverse=True)
    faces, bare_bottom = rng.randint(0, 2), rng.random() < 0.5
    a, b, c = size
    outer = [[(i == 0) + (i == n - 1) for i in range(n)] for n in size]
    outer[2][0] -= bare_bottom
    count = [x + y + z for x, y, z in product(*outer)].count(faces)
    which = f"All faces except one of the two ${a}$-by-${b}$ faces" if bare_bottom else "All six faces"
    number = f"exactly ${faces}$" if faces else "no"
    statement = (
        f"A block that measures ${a}$ by ${b}$ by ${c}$ is built from unit cubes. {which} of the block are"
        f" painted, and then the block is taken apart. How many of the unit cubes have {number} painted"
        f" face{'' if faces == 1 else 's'}?"
    )
    return Question(statement, count, {"size": size, "faces": faces, "bare_bottom": bare_bottom})


@template("geometry", level=2)
def median_length(rng: random.Random) -> Question:
    a, b, c = _triangle(rng, 30)
    x, y_squared = apex(a, b, c)
    squared = (x - Fraction(a, 2)) ** 2 + y_squared
    statement = (
        f"In triangle $ABC$, $AB = {c}$, $BC = {a}$, and $CA = {b}$. Let $M$ be the midpoint of $BC$. The"
        f" value of $AM^2$ {LOWEST_TERMS}"
    )
    return Question(statement, parts_sum(squared), {"sides": [a, b, c]})


@template("geometry", level=2)
def common_tangent(rng: random.Random) -> Question:
    small_leg, large_leg, hypotenuse = rng.choice(TRIPLES)
    scale = rng.randint(1, 6)
    difference, centres = rng.choice((small_leg, large_leg)) * scale, hypotenuse * scale
    radius = rng.randint(1, max(1, (centres - difference) // 2 - 1))
    need(2 * radius + difference < centres)  # the circles do not meet
    length = next(n for n in range(1, centres) if n * n + difference * difference == centres * centres)
    statement = (
        f"Two circles with radii ${radius}$ and ${radius + difference}$ have centers that are ${centres}$"
        " apart. A line touches the circles at $P$ and $Q$, and both circles lie on the same side of it."
        " Find $PQ$."
    )
    return Question(statement, length, {"radii": [radius, radius + difference], "centres": centres})


@template("geometry", level=3)
def points_inside_a_triangle(rng: random.Random) -> Question:
    (ax, ay), (bx, by), (cx, cy) = corners = [(rng.randint(0, 24), rng.randint(0, 24)) for _ in range(3)]
    area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
    need(abs(area) >= 60)
    edges = list(zip(corners, corners[1:] + corners[:1], strict=True))
    count = sum(
        all(area * ((u - p) * (y - q) - (x - p) * (v - q)) > 0 for (p, q), (u, v) in edges)
        for x, y in product(range(25), repeat=2)
    )
    statement = (
        f"A triangle in the coordinate plane has its vertices at $({ax},{ay})$, $({bx},{by})$, and"
        f" $({cx},{cy})$. How many points with two integer coordinates lie strictly inside the triangle?"
    )
    return Question(statement, count, {"corners": [list(corner) for corner in corners]})


@template("geometry", level=3)
def angle_bisector(rng: random.Random) -> Question:
    a, b, c = _triangle(rng, 24)
    x, y_squared = apex(a, b, c)
    foot = Fraction(a * c, b + c)  # BD : DC = AB : AC
    squared = (x - foot) ** 2 + y_squared
    statement = (
        f"In triangle $ABC$, $AB = {c}$, $BC = {a}$, and $CA = {b}$. The bisector of angle $A$ meets side"
        f" $BC$ at $D$. The value of $AD^2$ {LOWEST_TERMS}"
    )
    return Question(statement, parts_sum(squared), {"sides": [a, b, c]})


@template("geometry", level=4)
def diagonal_through_cubes(rng: random.Random) -> Question:
    size = [rng.randint(2, 45) * rng.randint(1, 12) for _ in range(3)]
    need(max(size) <= 400 and len(set(size)) == 3)
    common = math.lcm(*size)
    # Points, in units of 1/common of the diagonal, at which a coordinate is an integer; the last is its end.
    crossings = {i * (common // n) for n in size for i in range(1, n + 1)}
    a, b, c = size
    statement = (
        f"A solid ${a} \\times {b} \\times {c}$ box is made of $1 \\times 1 \\times 1$ cubes. Through the"
        " interiors of how many of these cubes does a diagonal of the box (from one vertex to the opposite"
        " one) pass?"
    )
    return Question(statement, len(crossings), {"size": size})


@template("geometry", level=4)
def circumcircle(rng: random.Random) -> Question:
    # Two right triangles with a common leg make a triangle whose area, and so whose radius, is rational.
    (leg, foot, slope), (other_leg, other_foot, other_slope) = (rng.choice(TRIPLES) for _ in range(2))
    if rng.random() < 0.5:
        leg, foot = foot, leg
    height = math.lcm(leg, other_leg) * rng.randint(1, 3)
    scale, other_scale = height // leg, height // other_leg
    a = abs(foot * scale + rng.choice((1, -1)) * other_foot * other_scale)
    b, c = slope * scale, other_slope * other_scale
    need(max(a, b, c) <= 250 and len({a, b, c}) == 3 and a != 0)
    x, y_squared = apex(a, b, c)
    # The center (a/2, h) is as far from A as from B: 2 h y = x^2 + y^2 - a x.
    center_squared = (x * x + y_squared - a * x) ** 2 / (4 * y_squared)
    squared = Fraction(a * a, 4) + center_squared
    radius = Fraction(math.isqrt(squared.numerator), math.isqrt(squared.denominator))
    statement = (
        f"The sides of a triangle have lengths ${a}$, ${b}$, and ${c}$. The radius of its circumscribed"
        f" circle {LOWEST_TERMS}"
    )
    return Question(statement, parts_sum(radius), {"sides": [a, b, c]})


@template("geometry", level=5, least=1)
def triangles_in_a_polygon(rng: random.Random) -> Question:
    n = rng.randint(8, 22)
    kind = rng.choice(
        ["acute", "right-angled", "obtuse", "isosceles", "scalene", "acute scalene", "obtuse isosceles"]
    )
    at_first = rng.random() < 0.3
    count = 0
    for i, j, k in combinations(range(n), 3):
        arcs = (j - i, k - j, n - k + i)  # each angle is half of the arc across from it
        angle = {-1: "acute", 0: "right-angled", 1: "obtuse"}[(2 * max(arcs) > n) - (2 * max(arcs) < n)]
        words = (angle, "isosceles" if len(set(arcs)) < 3 else "scalene")
        count += set(words).issuperset(kind.split()) and not (at_first and i)
    through = ", one of them being $A_1$" if at_first else ""
    hint = " (Equilateral triangles count as isosceles.)" if "isosceles" in kind else ""
    statement = (
        f"Let $A_1A_2\\ldots A_{{{n}}}$ be a regular polygon with ${n}$ sides. How many {kind} triangles have"
        f" all three corners among the vertices of the polygon{through}?{hint}"
    )
    return Question(statement, count, {"n": n, "kind": kind, "at_first": at_first})


@template("geometry", level=5)
def cyclic_quadrilateral(rng: random.Random) -> Question:
    a, b, c, d = (rng.randint(2, 20) for _ in range(4))
    need(len({a, b, c, d}) == 4 and 2 * max(a, b, c, d) < a + b + c + d)
    # AC^2 = a^2 + b^2 - 2ab cos B = c^2 + d^2 + 2cd cos B, since B and D add up to 180 degrees.
    cosine = Fraction(a * a + b * b - c * c - d * d, 2 * (a * b + c * d))
    squared = a * a + b * b - 2 * a * b * cosine
    statement = (
        f"Quadrilateral $ABCD$ is inscribed in a circle, and $AB = {a}$, $BC = {b}$, $CD = {c}$, and $DA ="
        f" {d}$. The value of $AC^2$ {LOWEST_TERMS}"
    )
    return Question(statement, parts_sum(squared), {"sides": [a, b, c, d]})
