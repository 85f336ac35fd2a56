"""Number theory templates: answers by trying integers."""

import math
import random
from itertools import product

from mars_env.problems.aime.template import Question, listing, need, polynomial, template


@template("number theory", level=1, least=1)
def digit_sum_multiples(rng: random.Random) -> Question:
    divisor, digit_sum = rng.randint(2, 25), rng.randint(3, 25)
    count = sum(1 for n in range(100, 1000) if n % divisor == 0 and sum(map(int, str(n))) == digit_sum)
    statement = (
        f"How many three-digit positive integers are multiples of ${divisor}$ and have digits that add up to "
        f"${digit_sum}$?"
    )
    return Question(statement, count, {"divisor": divisor, "digit_sum": digit_sum})


@template("number theory", level=1)
def common_remainders(rng: random.Random) -> Question:
    moduli = sorted(rng.sample(range(4, 20), 3))
    size = math.prod(moduli)
    need(math.lcm(*moduli) == size and 200 <= size <= 999)
    remainders = [rng.randrange(1, m) for m in moduli]
    answer = next(
        n for n in range(1, size + 1) if all(n % m == r for m, r in zip(moduli, remainders, strict=True))
    )
    conditions = listing([f"${r}$ when divided by ${m}$" for m, r in zip(moduli, remainders, strict=True)])
    statement = f"Find the least positive integer that leaves a remainder of {conditions}."
    return Question(statement, answer, {"moduli": moduli, "remainders": remainders})


@template("number theory", level=2)
def divisors_that_are_multiples(rng: random.Random) -> Question:
    exponents = {p: rng.randint(1, high) for p, high in ((2, 8), (3, 5), (5, 3), (7, 2))}
    number = math.prod(p**e for p, e in exponents.items())
    need(number <= 10**7)
    p, q = rng.sample(sorted(exponents), 2)
    divisor, other = p ** rng.randint(1, exponents[p]), q ** rng.randint(1, exponents[q])
    low = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    answer = sum(1 for d in {*low, *(number // d for d in low)} if d % divisor == 0 and d % other != 0)
    factors = r" \cdot ".join(f"{p}^{{{e}}}" if e > 1 else str(p) for p, e in exponents.items())
    statement = (
        f"Let $N = {factors}$. How many positive divisors of $N$ are multiples of ${divisor}$ "
        f"but not multiples of ${other}$?"
    )
    parameters = {"exponents": list(exponents.values()), "divisor": divisor, "other": other}
    return Question(statement, answer, parameters)


@template("number theory", level=2)
def sum_of_powers_remainder(rng: random.Random) -> Question:
    a, b = sorted(rng.sample(range(2, 40), 2))
    p, q = rng.randint(30, 400), rng.randint(30, 400)
    need(a % 10 != 0 and b % 10 != 0)
    total = 0
    for base, exponent in ((a, p), (b, q)):
        power = 1
        for _ in range(exponent):
            power = power * base % 1000
        total += power
    statement = f"Find the remainder when ${a}^{{{p}}} + {b}^{{{q}}}$ is divided by $1000$."
    return Question(statement, total % 1000, {"bases": [a, b], "exponents": [p, q]})


@template("number theory", level=3)
def trailing_zeros_in_a_base(rng: random.Random) -> Question:
    n = rng.randint(30, 250)
    base = rng.choice([6, 12, 14, 15, 18, 20, 21, 24, 28, 36, 40, 45, 48, 50, 54, 60, 63, 72])
    factorial, zeros = math.factorial(n), 0
    while factorial % base == 0:
        factorial //= base
        zeros += 1
    statement = f"When ${n}!$ is written in base ${base}$, with how many zeros does it end?"
    return Question(statement, zeros, {"n": n, "base": base})


@template("number theory", level=3, least=10)
def least_exponent(rng: random.Random) -> Question:
    prime = rng.choice([p for p in range(101, 998, 2) if all(p % d for d in range(3, math.isqrt(p) + 1, 2))])
    base = rng.randint(2, 30)
    power, order = base % prime, 1
    while power != 1:
        power, order = power * base % prime, order + 1
    statement = (
        f"The number ${prime}$ is prime. Find the least positive integer $n$ for which ${base}^n - 1$ "
        f"is a multiple of ${prime}$."
    )
    return Question(statement, order, {"base": base, "prime": prime})


@template("number theory", level=4)
def pairs_with_lcm(rng: random.Random) -> Question:
    primes = rng.sample([2, 3, 5, 7, 11, 13], 3)
    exponents = [rng.randint(1, 3) for _ in primes]
    number = math.prod(p**e for p, e in zip(primes, exponents, strict=True))
    common = primes[0] ** rng.randint(0, exponents[0] - 1) * primes[1] ** rng.randint(0, 1)
    need(number <= 200_000 and common > 1)
    powers = [[p**i for i in range(e + 1)] for p, e in zip(primes, exponents, strict=True)]
    usable = [d for d in map(math.prod, product(*powers)) if d % common == 0]
    answer = sum(1 for a in usable for b in usable if math.lcm(a, b) == number)
    statement = (
        "Find the number of ordered pairs $(a, b)$ of positive integers such that both $a$ and $b$ are"
        f" multiples of ${common}$ and the least common multiple of $a$ and $b$ is ${number}$."
    )
    return Question(statement, answer, {"number": number, "common": common})


@template("number theory", level=4, least=1)
def quadratic_multiples(rng: random.Random) -> Question:
    modulus = rng.choice([15, 21, 24, 30, 33, 35, 36, 39, 42, 45, 55, 60, 63, 65, 66, 70, 77, 84, 90, 91])
    a, b, bound = rng.randint(1, 20), rng.randint(-40, 40), rng.randint(300, 1500)
    count = sum(1 for n in range(1, bound + 1) if (n * n + a * n + b) % modulus == 0)
    statement = (
        f"For how many positive integers $n$ not exceeding ${bound}$ is ${polynomial(1, a, b, variable='n')}$"
        f" a multiple of ${modulus}$?"
    )
    return Question(statement, count, {"modulus": modulus, "a": a, "b": b, "bound": bound})


@template("number theory", level=5)
def quadratic_squares(rng: random.Random) -> Question:
    a, b = rng.randint(1, 60), rng.randint(-300, 900)
    gap = abs(a * a - 4 * b)
    need(0 < gap <= 2500)
    # Writing 4(n^2 + an + b) = (2n + a)^2 - D, both factors of D are at most |D|, so 2n + a is at most |D|.
    values = {n: n * n + a * n + b for n in range(1, gap // 2 + 1)}
    roots = [n for n, value in values.items() if value >= 0 and math.isqrt(value) ** 2 == value]
    need(len(roots) >= 2)
    statement = (
        f"Find the sum of all positive integers $n$ for which ${polynomial(1, a, b, variable='n')}$ "
        "is the square of an integer."
    )
    return Question(statement, sum(roots), {"a": a, "b": b})
