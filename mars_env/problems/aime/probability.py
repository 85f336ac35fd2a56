"""Probability templates: answers by listing equally likely cases, or from exact linear equations."""

import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product

from mars_env.problems.aime.combinatorics import COLORS, NAMES
from mars_env.problems.aime.template import (
    LOWEST_TERMS,
    Question,
    determinant,
    latex,
    listing,
    need,
    parts_sum,
    template,
)

Steps = Sequence[Mapping[int, Fraction]]
"""From each state of a chain, the chance of the step to each other one; the rest of the chance ends it."""


def _expected(start: int, steps: Steps, gains: Sequence[Fraction | int]) -> Fraction:
    """What a chain that starts in a state gains until its end, by Cramer's rule; each state has its gain."""
    size = range(len(steps))
    matrix = [[(i == j) - steps[i].get(j, Fraction(0)) for j in size] for i in size]
    replaced = [[*row[:start], gain, *row[start + 1 :]] for row, gain in zip(matrix, gains, strict=True)]
    return determinant(replaced) / determinant(matrix)


@template("probability", level=1)
def two_dice(rng: random.Random) -> Question:
    a, b = sorted(rng.sample([4, 6, 8, 10, 12, 14, 16, 18, 20, 24, 30], 2))
    low = rng.randint(3, a + b - 3)
    high = rng.randint(low, min(low + 6, a + b))
    hits = sum(1 for x, y in product(range(1, a + 1), range(1, b + 1)) if low <= x + y <= high)
    spread = f"exactly ${low}$" if low == high else f"at least ${low}$ and at most ${high}$"
    statement = (
        f"A fair die whose faces are numbered from $1$ to ${a}$ and a fair die whose faces are numbered from"
        f" $1$ to ${b}$ are rolled. The probability that the sum of the two results is {spread}"
        f" {LOWEST_TERMS}"
    )
    return Question(statement, parts_sum(Fraction(hits, a * b)), {"a": a, "b": b, "low": low, "high": high})


@template("probability", level=1)
def same_color(rng: random.Random) -> Question:
    counts = [rng.randint(2, 12) for _ in range(3)]
    colors = rng.sample(COLORS, 3)
    balls = [i for i, n in enumerate(counts) for _ in range(n)]
    pairs = list(combinations(balls, 2))
    hits = sum(1 for x, y in pairs if x == y)
    supply = listing([f"${n}$ {color}" for n, color in zip(counts, colors, strict=True)])
    statement = (
        f"A bag holds {supply} balls. Two balls are drawn at random without replacement. The probability that"
        f" they have the same color {LOWEST_TERMS}"
    )
    return Question(statement, parts_sum(Fraction(hits, len(pairs))), {"counts": counts})


@template("probability", level=2)
def random_divisibility(rng: random.Random) -> Question:
    a, b, c = rng.sample(range(2, 13), 3)
    bound = rng.randint(60, 500)
    hits = sum(1 for n in range(1, bound + 1) if (n % a == 0 or n % b == 0) and n % c)
    need(hits > 0)
    statement = (
        f"An integer is chosen at random from $1$ to ${bound}$, each with the same chance. The probability"
        f" that it is a multiple of ${a}$ or of ${b}$ (or of both), but not a multiple of ${c}$,"
        f" {LOWEST_TERMS}"
    )
    return Question(statement, parts_sum(Fraction(hits, bound)), {"a": a, "b": b, "c": c, "bound": bound})


@template("probability", level=2)
def taking_turns(rng: random.Random) -> Question:
    """Who hits first, from the equations that link one round to the next."""
    p, q = (Fraction(rng.randint(1, 7), rng.randint(3, 12)) for _ in range(2))
    need(0 < p < 1 and 0 < q < 1 and p != q)
    first, second = rng.sample(NAMES, 2)
    win = _expected(0, [{1: 1 - p}, {0: 1 - q}], [p, 0])
    statement = (
        f"{first} and {second} take turns shooting at a target, and {first} begins. Each shot of {first} hits"
        f" with probability ${latex(p)}$, each shot of {second} with probability ${latex(q)}$, independently"
        f" of all others. Whoever hits first wins. The probability that {first} wins {LOWEST_TERMS}"
    )
    parameters = {"p": [*p.as_integer_ratio()], "q": [*q.as_integer_ratio()]}
    return Question(statement, parts_sum(win), parameters)


@template("probability", level=3)
def meeting_by_chance(rng: random.Random) -> Question:
    """Two random arrivals that overlap, by the area of the hexagon of good pairs."""
    t, a, b = 60, rng.randint(5, 50), rng.randint(5, 50)
    first, second = rng.sample(NAMES, 2)
    # The points (x, y) of the square with y - x <= a and x - y <= b, corner by corner.
    corners = [(0, 0), (b, 0), (t, t - b), (t, t), (t - a, t), (0, a)]
    doubled = sum(x * v - u * y for (x, y), (u, v) in zip(corners, corners[1:] + corners[:1], strict=True))
    statement = (
        f"{first} and {second} each come to a café at a random moment between noon and 1 p.m., independently"
        f" and with all moments equally likely. {first} stays for ${a}$ minutes and {second} for ${b}$"
        " minutes, even if that is past 1 p.m. The probability that they are in the café at the same time"
        f" {LOWEST_TERMS}"
    )
    return Question(statement, parts_sum(Fraction(doubled, 2 * t * t)), {"first_wait": a, "second_wait": b})


@template("probability", level=3)
def matched_pairs(rng: random.Random) -> Question:
    pairs, drawn = rng.randint(4, 7), rng.randint(3, 6)
    whole = rng.randint(0, drawn // 2)
    opening, things = rng.choice(
        [
            (f"A drawer holds ${pairs}$ pairs of socks, each pair in a color of its own.", "socks"),
            (f"A box holds ${pairs}$ pairs of gloves, each pair in a pattern of its own.", "gloves"),
            (f"A shelf holds ${pairs}$ pairs of shoes, each pair in a size of its own.", "shoes"),
            (f"A game has ${pairs}$ pairs of cards, each pair with a picture of its own.", "cards"),
            (f"A class consists of ${pairs}$ pairs of twins.", "children"),
            (f"The dancers at a ball make up ${pairs}$ pairs.", "dancers"),
        ]
    )
    hands = list(combinations(range(2 * pairs), drawn))
    need(len(hands) <= 2002)
    hits = sum(1 for hand in hands if drawn - len({i // 2 for i in hand}) == whole)
    need(hits > 0)
    condition = f"exactly ${whole}$ complete pairs are" if whole > 1 else "exactly one complete pair is"
    if whole == 0:
        condition = "no complete pair is"
    statement = (
        f"{opening} At random, ${drawn}$ of the ${2 * pairs}$ {things} are chosen. The probability that "
        f"{condition} among them {LOWEST_TERMS}"
    )
    parameters = {"pairs": pairs, "drawn": drawn, "whole": whole}
    return Question(statement, parts_sum(Fraction(hits, len(hands))), parameters)


@template("probability", level=4)
def spread_of_a_draw(rng: random.Random) -> Question:
    n, drawn = rng.randint(8, 16), rng.randint(3, 4)
    low = rng.randint(drawn, n - 2)
    high = rng.randint(low, n - 1)
    draws = list(combinations(range(1, n + 1), drawn))
    hits = sum(1 for draw in draws if low <= draw[-1] - draw[0] <= high)
    need(hits < len(draws))
    spread = f"exactly ${low}$" if low == high else f"at least ${low}$ and at most ${high}$"
    statement = (
        f"From the integers $1$ to ${n}$, ${drawn}$ different ones are chosen at random. The probability that"
        f" the difference between the largest and the smallest of them is {spread} {LOWEST_TERMS}"
    )
    parameters = {"n": n, "drawn": drawn, "low": low, "high": high}
    return Question(statement, parts_sum(Fraction(hits, len(draws))), parameters)


@template("probability", level=4)
def walk_to_an_end(rng: random.Random) -> Question:
    """A biased walk that ends at either end, from its linear equations."""
    p = Fraction(rng.randint(1, 5), rng.randint(3, 7))
    length = rng.randint(4, 7)
    start = rng.randint(1, length - 1)
    need(0 < p < 1)
    steps = [{point - 1: 1 - p, point + 1: p} for point in range(length - 1)]  # from the point after it
    chance = _expected(start - 1, steps, [0] * (length - 2) + [p])
    animal = rng.choice(["frog", "beetle", "flea", "crab", "cricket", "robot"])
    statement = (
        f"A {animal} sits at the point ${start}$ of the number line. Again and again it moves one unit: to"
        f" the right with probability ${latex(p)}$, otherwise to the left, each move independent of the"
        f" others. It stops when it reaches $0$ or ${length}$. The probability that it stops at ${length}$"
        f" {LOWEST_TERMS}"
    )
    parameters = {"p": [*p.as_integer_ratio()], "length": length, "start": start}
    return Question(statement, parts_sum(chance), parameters)


@template("probability", level=5)
def waiting_for_a_pattern(rng: random.Random) -> Question:
    """The expected number of flips until a pattern appears, from the equations of its prefixes."""
    pattern = "".join(rng.choice("HT") for _ in range(rng.randint(2, 5)))
    p = Fraction(rng.randint(1, 5), rng.randint(2, 6))
    need(0 < p < 1)
    starts = [pattern[:k] for k in range(len(pattern) + 1)]

    def longest(seen: str) -> int:
        return max(k for k, start in enumerate(starts) if seen.endswith(start))

    steps = [{longest(seen + "H"): p, longest(seen + "T"): 1 - p} for seen in starts[:-1]]
    flips = _expected(0, steps, [1] * len(pattern))
    statement = (
        f"A coin shows heads ($H$) with probability ${latex(p)}$ and otherwise tails ($T$). It is flipped"
        f" until the results ${pattern}$ appear in a row, in this order. The expected number of flips"
        f" {LOWEST_TERMS}"
    )
    return Question(statement, parts_sum(flips), {"pattern": pattern, "p": [*p.as_integer_ratio()]})
