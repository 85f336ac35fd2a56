"""Templates for sequences and series: answers term by term."""

import math
import random
from fractions import Fraction

from mars_env.problems.aime.template import LOWEST_TERMS, Question, latex, need, parts_sum, signed, template


@template("sequences", level=1)
def arithmetic_term(rng: random.Random) -> Question:
    first, step = rng.randint(-40, 90), rng.randint(2, 25)
    i, j, k = sorted(rng.sample(range(3, 60), 3))
    low, high = first + (i - 1) * step, first + (j - 1) * step
    difference = next(d for d in range(1, high - low + 1) if low + (j - i) * d == high)
    term = high + sum([difference] * (k - j))
    statement = (
        f"In an arithmetic progression $a_1, a_2, a_3, \\ldots$ the terms $a_{{{i}}} = {low}$ and $a_{{{j}}}"
        f" = {high}$ are known. Find $a_{{{k}}}$."
    )
    return Question(statement, term, {"known": [[i, low], [j, high]], "wanted": k})


@template("sequences", level=2)
def what_is_left(rng: random.Random) -> Question:
    a, b = sorted(rng.sample(range(2, 14), 2))
    position = rng.randint(40, 400)
    number, written = 0, 0
    while written < position:
        number += 1
        written += bool(number % a and number % b and math.isqrt(number) ** 2 != number)
    statement = (
        f"All positive integers that are neither multiples of ${a}$, nor multiples of ${b}$, nor squares of"
        f" integers, are written down in increasing order. Which number is the {_ordinal(position)} one?"
    )
    return Question(statement, number, {"a": a, "b": b, "position": position})


@template("sequences", level=2)
def recurrence_remainder(rng: random.Random) -> Question:
    p, q = rng.randint(1, 9), rng.choice([-7, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 7])
    first, second = rng.randint(1, 20), rng.randint(1, 30)
    n = rng.randint(50, 300)
    a, b = first, second
    for _ in range(n - 2):
        a, b = b, (p * b + q * a) % 1000
    left = f"{p if p > 1 else ''}a_{{n-1}}{signed(q) if abs(q) > 1 else signed(q)[0]}a_{{n-2}}"
    statement = (
        f"The sequence $a_1, a_2, a_3, \\ldots$ begins with $a_1 = {first}$ and $a_2 = {second}$, and $a_n ="
        f" {left}$ for all $n \\ge 3$. Find the least non-negative integer that differs from $a_{{{n}}}$ by a"
        " multiple of $1000$."
    )
    return Question(statement, b, {"p": p, "q": q, "first": first, "second": second, "n": n})


@template("sequences", level=3)
def sum_of_unit_products(rng: random.Random) -> Question:
    step, start, terms = rng.randint(2, 9), rng.randint(1, 9), rng.randint(5, 40)
    total = sum(Fraction(1, (start + k * step) * (start + (k + 1) * step)) for k in range(terms))
    one, two, three = (start + i * step for i in range(3))
    last = start + terms * step
    statement = (
        f"The sum $$\\frac{{1}}{{{one} \\cdot {two}}} + \\frac{{1}}{{{two} \\cdot {three}}} + \\cdots +"
        f" \\frac{{1}}{{{last - step} \\cdot {last}}},$$ in which each factor is ${step}$ more than the one"
        f" before it, {LOWEST_TERMS}"
    )
    return Question(statement, parts_sum(Fraction(total)), {"step": step, "start": start, "terms": terms})


@template("sequences", level=3)
def sum_of_floors(rng: random.Random) -> Question:
    low = rng.randint(1, 300)
    high = low + rng.randint(15, 120)
    multiplier = rng.choice([1, 2, 3, 5, 6, 7])
    total = sum(math.isqrt(multiplier * k) for k in range(low, high + 1))
    inside = "k" if multiplier == 1 else f"{multiplier}k"
    statement = (
        "For a real number $x$ let $\\lfloor x \\rfloor$ be the greatest integer not exceeding $x$. Find "
        f"$$\\sum_{{k={low}}}^{{{high}}} \\left\\lfloor \\sqrt{{{inside}}} \\right\\rfloor.$$"
    )
    return Question(statement, total, {"low": low, "high": high, "multiplier": multiplier})


@template("sequences", level=3)
def row_of_digits(rng: random.Random) -> Question:
    first, position = rng.randint(1, 200), rng.randint(100, 3000)
    row = "".join(map(str, range(first, first + 1100)))
    digits = row[position - 1 : position + 2]
    statement = (
        f"The integers ${first}, {first + 1}, {first + 2}, \\ldots$ are written one after the other in a"
        f" single row, without spaces. The digits number ${position}$, ${position + 1}$, and ${position + 2}$"
        " of the row, counted from the left and read in this order, form a three-digit number, which may"
        " begin with zeros. Find this number."
    )
    return Question(statement, int(digits), {"first": first, "position": position})


@template("sequences", level=4)
def returning_recurrence(rng: random.Random) -> Question:
    first, second = (Fraction(rng.randint(1, 30), rng.randint(1, 8)) for _ in range(2))
    constant = rng.choice([1, 1, 4, 9, 16])
    root = math.isqrt(constant)
    n = rng.randint(60, 260)
    a, b = first, second
    for _ in range(n - 2):
        a, b = b, root * (b + root) / a
    need(b not in (first, second))
    inner = "1 + x_{n-1}" if root == 1 else f"{root}x_{{n-1}} + {constant}"
    statement = (
        f"A sequence begins with $x_1 = {latex(first)}$ and $x_2 = {latex(second)}$, and for $n \\ge 3$ its"
        f" terms are $x_n = \\frac{{{inner}}}{{x_{{n-2}}}}$. The term $x_{{{n}}}$ {LOWEST_TERMS}"
    )
    starts = {"first": [*first.as_integer_ratio()], "second": [*second.as_integer_ratio()]}
    return Question(statement, parts_sum(b), {**starts, "root": root, "n": n})


@template("sequences", level=4)
def infinite_sum(rng: random.Random) -> Question:
    a, b, c = rng.randint(1, 5), rng.randint(-4, 9), rng.randint(0, 9)
    ratio = rng.randint(2, 7)
    # With S_j the sum of k^j / r^k over k >= 1, shifting k gives r S_j = sum of (k + 1)^j / r^k over k >= 0.
    s0 = Fraction(1, ratio - 1)
    s1 = (1 + s0) / (ratio - 1)
    s2 = (1 + s0 + 2 * s1) / (ratio - 1)
    total = a * s2 + b * s1 + c * s0
    need(b != 0 and total > 0)
    numerator = f"{a if a > 1 else ''}k^2{signed(b) if abs(b) > 1 else signed(b)[0]}k{signed(c) if c else ''}"
    statement = f"The sum $$\\sum_{{k=1}}^{{\\infty}} \\frac{{{numerator}}}{{{ratio}^k}}$$ {LOWEST_TERMS}"
    return Question(statement, parts_sum(total), {"a": a, "b": b, "c": c, "ratio": ratio})


@template("sequences", level=5)
def last_in_the_circle(rng: random.Random) -> Question:
    people, step = rng.randint(50, 400), rng.randint(3, 11)
    circle = list(range(1, people + 1))
    at = 0
    while len(circle) > 1:
        at = (at + step - 1) % len(circle)
        circle.pop(at)
    statement = (
        f"The numbers $1, 2, \\ldots, {people}$ are written around a circle in this order. Starting the count"
        f" at $1$, every {_ordinal(step)} of the remaining numbers is erased, around and around, until a"
        f" single number is left: the first number to go is ${step}$, the second is ${2 * step}$. Which"
        " number is left?"
    )
    return Question(statement, circle[0], {"people": people, "step": step})


@template("sequences", level=5, least=12)
def first_multiple(rng: random.Random) -> Question:
    p, q, modulus = rng.randint(1, 9), rng.choice([1, 1, -1, 2, 3]), rng.randint(30, 600)
    need(math.gcd(q, modulus) == 1 and (p, q) not in ((1, -1), (2, -1)))
    a, b, n = 1, p % modulus, 2  # u_1 = 1, u_2 = p
    while b:
        a, b, n = b, (p * b + q * a) % modulus, n + 1
        need(n <= 999)
    right = f"{p if p > 1 else ''}u_{{n-1}}{signed(q) if abs(q) > 1 else signed(q)[0]}u_{{n-2}}"
    statement = (
        f"Let $u_1 = 1$, $u_2 = {p}$, and $u_n = {right}$ for $n \\ge 3$. Find the least positive integer $n$"
        f" for which $u_n$ is a multiple of ${modulus}$."
    )
    return Question(statement, n, {"p": p, "q": q, "modulus": modulus})


def _ordinal(number: int) -> str:
    endings = {} if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}
    return f"${number}${endings.get(number % 10, 'th')}"
