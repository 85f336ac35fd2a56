"""Algebra templates: answers by search, by exact linear algebra, or step by step."""

import math
import random
from fractions import Fraction
from itertools import pairwise, product

from mars_env.problems.aime.template import (
    LOWEST_TERMS,
    Question,
    determinant,
    latex,
    listing,
    need,
    parts_sum,
    polynomial,
    signed,
    template,
)


@template("algebra", level=1)
def products_in_pairs(rng: random.Random) -> Question:
    a, b, c = (rng.randint(2, 60) for _ in range(3))
    need(len({a, b, c}) == 3)
    ab, bc, ca = a * b, b * c, c * a
    x = next(d for d in range(1, min(ab, ca) + 1) if ab % d == 0 == ca % d and (ab // d) * (ca // d) == bc)
    statement = (
        f"The positive real numbers $x$, $y$, and $z$ satisfy $xy = {ab}$, $yz = {bc}$, and $zx = {ca}$. "
        "Find $x + y + z$."
    )
    return Question(statement, x + ab // x + ca // x, {"products": [ab, bc, ca]})


@template("algebra", level=1, least=3)
def absolute_values(rng: random.Random) -> Question:
    a, b, c = sorted(rng.sample(range(-30, 60), 3))
    bound = rng.randint(c - a + 1, 3 * (c - a) + 60)
    count = sum(1 for x in range(a - bound, c + bound + 1) if abs(x - a) + abs(x - b) + abs(x - c) <= bound)
    terms = " + ".join(f"|{polynomial(1, -shift)}|" for shift in (a, b, c))
    statement = f"How many integers $x$ satisfy ${terms} \\le {bound}$?"
    return Question(statement, count, {"points": [a, b, c], "bound": bound})


@template("algebra", level=2)
def power_sum_of_roots(rng: random.Random) -> Question:
    """A power sum of the roots, as the trace of a power of the companion matrix."""
    p, q, power = rng.randint(1, 15), rng.randint(-30, 40), rng.randint(3, 6)
    need(q != 0 and p * p != 4 * q)
    # The companion matrix of x^2 - p x + q has the roots as its eigenvalues.
    m = (1, 0, 0, 1)
    for _ in range(power):
        m = (p * m[0] + m[1], -q * m[0], p * m[2] + m[3], -q * m[2])
    statement = (
        f"Let $r$ and $s$ be the (possibly complex) roots of ${polynomial(1, -p, q)} = 0$. Find $r^{power} +"
        f" s^{power}$."
    )
    return Question(statement, m[0] + m[3], {"p": p, "q": q, "power": power})


@template("algebra", level=2)
def cubic_through_points(rng: random.Random) -> Question:
    """The next value of a cubic from four values, by extending its table of differences."""
    a, b, c, d = rng.randint(-3, 3), rng.randint(-9, 9), rng.randint(-20, 20), rng.randint(-40, 40)
    need(a != 0)
    values = [a * x**3 + b * x**2 + c * x + d for x in (1, 2, 3, 4)]
    target = rng.randint(6, 12)
    ends, row = [], values
    while row:
        ends.append(row[-1])
        row = [y - x for x, y in pairwise(row)]
    for _ in range(target - 4):
        for i in range(len(ends) - 2, -1, -1):
            ends[i] += ends[i + 1]
    points = listing([f"$P({x}) = {value}$" for x, value in zip((1, 2, 3, 4), values, strict=True)])
    statement = f"A polynomial $P$ of degree at most $3$ satisfies {points}. Find $P({target})$."
    return Question(statement, ends[0], {"values": values, "target": target})


@template("algebra", level=3)
def equal_floors(rng: random.Random) -> Question:
    a = rng.randint(3, 60)
    b = a + rng.randint(1, 25)
    # n/a - n/b < 1 is needed, so n < ab/(b - a).
    count = sum(1 for n in range(1, a * b // (b - a) + 1) if n // a == n // b)
    statement = (
        f"For how many positive integers $n$ is $\\left\\lfloor \\frac{{n}}{{{a}}} \\right\\rfloor ="
        f" \\left\\lfloor \\frac{{n}}{{{b}}} \\right\\rfloor$? (Here $\\lfloor x \\rfloor$ is the greatest"
        " integer not exceeding $x$.)"
    )
    return Question(statement, count, {"a": a, "b": b})


@template("algebra", level=3)
def two_logarithms(rng: random.Random) -> Question:
    base, u, v = rng.choice([2, 3, 5, 6, 7]), rng.randint(1, 9), rng.randint(1, 9)
    k, m = rng.randint(2, 4), rng.randint(2, 4)
    need(base**u + base**v <= 999 and u != v)
    first, second = Fraction(u) + Fraction(v, k), Fraction(v) + Fraction(u, m)
    pairs = product(range(1, 10), repeat=2)
    solutions = [(i, j) for i, j in pairs if k * i + j == k * first and m * j + i == m * second]
    need(len(solutions) == 1)
    i, j = solutions[0]
    statement = (
        f"The real numbers $x > 1$ and $y > 1$ satisfy $\\log_{{{base}}} x + \\log_{{{base**k}}} y ="
        f" {latex(first)}$ and $\\log_{{{base}}} y + \\log_{{{base**m}}} x = {latex(second)}$. Find $x"
        " + y$."
    )
    sums = [[*first.as_integer_ratio()], [*second.as_integer_ratio()]]
    return Question(statement, base**i + base**j, {"base": base, "k": k, "m": m, "sums": sums})


@template("algebra", level=3)
def best_product(rng: random.Random) -> Question:
    p, q = rng.sample(range(2, 14), 2)
    total = rng.randint(60, 300)
    need(math.gcd(p, q) == 1)
    products = [a * ((total - p * a) // q) for a in range(1, total // p + 1) if (total - p * a) % q == 0]
    need(len(products) >= 3)
    statement = (
        f"The positive integers $a$ and $b$ satisfy ${p}a + {q}b = {total}$. Find the largest possible value"
        " of $ab$."
    )
    return Question(statement, max(products), {"p": p, "q": q, "total": total})


@template("algebra", level=4, least=1)
def product_over_roots(rng: random.Random) -> Question:
    """A product over the roots of a cubic, as a determinant of its companion matrix."""
    b, c, d = rng.randint(-9, 9), rng.randint(-15, 15), rng.randint(-25, 25)
    u, v = rng.randint(1, 4), rng.randint(-5, 6)
    need(0 not in (c, d, v))
    companion = [[0, 0, -d], [1, 0, -c], [0, 1, -b]]
    square = [[sum(companion[i][k] * companion[k][j] for k in range(3)) for j in range(3)] for i in range(3)]
    shifted = [[square[i][j] + u * companion[i][j] + v * (i == j) for j in range(3)] for i in range(3)]
    factor = f"({{0}}^2{signed(u) if u > 1 else '+'}{{0}}{signed(v)})"
    factors = "".join(factor.replace("{0}", root) for root in "rst")
    statement = (
        f"Let $r$, $s$, and $t$ be the (possibly complex) roots of ${polynomial(1, b, c, d)} = 0$. Find"
        f" ${factors}$."
    )
    return Question(statement, determinant(shifted), {"cubic": [1, b, c, d], "u": u, "v": v})


@template("algebra", level=4)
def swapped_argument(rng: random.Random) -> Question:
    """A function defined by an equation with two arguments, from a linear system at one point."""
    k, centre = rng.choice([2, 3, 4, 5, -2, -3]), rng.randint(2, 20)
    a, b, c = rng.randint(1, 6), rng.randint(-9, 9), rng.randint(-20, 30)
    at = rng.randint(-10, 25)
    need(2 * at != centre and b != 0)
    here, there = (a * x * x + b * x + c for x in (at, centre - at))
    # f(x) + k f(c - x) = here and k f(x) + f(c - x) = there, by Cramer's rule
    value = determinant([[here, k], [there, 1]]) / determinant([[1, k], [k, 1]])
    need(value > 0)
    term = f"{signed(k)}f({centre} - x)"
    statement = (
        f"A function $f$ satisfies $f(x){term} = {polynomial(a, b, c)}$ for all real numbers $x$. The value"
        f" $f({at})$ {LOWEST_TERMS}"
    )
    parameters = {"k": k, "centre": centre, "quadratic": [a, b, c], "at": at}
    return Question(statement, parts_sum(value), parameters)


@template("algebra", level=5)
def roots_of_unity(rng: random.Random) -> Question:
    """A product over roots of unity modulo 1000, as a determinant of a circulant matrix."""
    n = rng.randint(5, 10)
    a, b, c = rng.randint(1, 5), rng.randint(-4, 4), rng.randint(-3, 3)
    need(b != 0 and c != 0)
    first = [a, b, c, *([0] * (n - 3))]
    value = determinant([[first[(j - i) % n] for j in range(n)] for i in range(n)])
    need(value > 0)
    inner = f"{a}{_times(b)}\\omega^k{_times(c)}\\omega^{{2k}}"
    statement = (
        f"Let $\\omega = \\cos\\frac{{2\\pi}}{{{n}}} + i\\sin\\frac{{2\\pi}}{{{n}}}$. The product"
        f" $$\\prod_{{k=0}}^{{{n - 1}}} \\left({inner}\\right)$$ is a positive integer. Find the remainder"
        " when it is divided by $1000$."
    )
    return Question(statement, value % 1000, {"n": n, "coefficients": [a, b, c]})


def _times(c: int) -> str:
    return {1: "+", -1: "-"}.get(c, signed(c))
