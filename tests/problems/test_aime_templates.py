"""Every template of the aime set, solved a second time in another way than the template does it."""

import cmath
import json
import math
import random
import re
from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest

from mars_env.problems.aime import TEMPLATES
from mars_env.problems.aime.template import Question, Template, need

DRAWS = 40


def parts(value):
    value = Fraction(value)
    return value.numerator + value.denominator


# ------------------------------------------------------------------ number theory
def digit_sum_multiples(divisor, digit_sum):
    return sum(
        (100 * a + 10 * b + digit_sum - a - b) % divisor == 0
        for a in range(1, 10)
        for b in range(10)
        if 0 <= digit_sum - a - b <= 9
    )


def common_remainders(moduli, remainders):
    size = math.prod(moduli)
    total = sum(r * (size // m) * pow(size // m, -1, m) for m, r in zip(moduli, remainders, strict=True))
    return total % size


def divisors_that_are_multiples(exponents, divisor, other):
    powers = ([p**k for k in range(e + 1)] for p, e in zip((2, 3, 5, 7), exponents, strict=True))
    divisors = [math.prod(chosen) for chosen in product(*powers)]
    return sum(d % divisor == 0 and d % other != 0 for d in divisors)


def sum_of_powers_remainder(bases, exponents):
    return sum(pow(b, e, 1000) for b, e in zip(bases, exponents, strict=True)) % 1000


def factored(number):
    found, p = Counter(), 2
    while number > 1:
        while number % p == 0:
            number, found[p] = number // p, found[p] + 1
        p += 1
    return found


def trailing_zeros_in_a_base(n, base):
    return min(sum(n // p**k for k in range(1, 20)) // e for p, e in factored(base).items())  # Legendre


def least_exponent(base, prime):
    return min(d for d in range(1, prime) if (prime - 1) % d == 0 and pow(base, d, prime) == 1)


def pairs_with_lcm(number, common):
    assert number % common == 0
    return math.prod(2 * e + 1 for e in factored(number // common).values())


def quadratic_multiples(modulus, a, b, bound):
    residues = [r for r in range(modulus) if (r * r + a * r + b) % modulus == 0]
    return sum((bound - r) // modulus + (r > 0) for r in residues)


def quadratic_squares(a, b):
    gap = a * a - 4 * b  # (2n + a - 2s)(2n + a + 2s) = gap
    found = set()
    for u in range(-abs(gap), abs(gap) + 1):
        if u and gap % u == 0:
            twice = u + gap // u  # 2 (2n + a)
            n, rest = divmod(twice - 2 * a, 4)
            if rest == 0 and n > 0 and (gap // u - u) % 4 == 0:
                found.add(n)
    return sum(found)


# ------------------------------------------------------------------ combinatorics
def committee(a, b, size, least, other_least):
    return sum(comb(a, k) * comb(b, size - k) for k in range(least, size - other_least + 1))


def paths_around_points(width, height, closed):
    def meets(rights, x, y):
        """Whether a walk, given by its steps to the right, is at a point after x + y steps."""
        return sum(step < x + y for step in rights) == x

    walks = combinations(range(width + height), width)
    return sum(not any(meets(rights, *point) for point in closed) for rights in walks)


def bounded_sums(bounds, total):
    answer = 0
    for chosen in product((0, 1), repeat=3):
        left = total - sum(c * (n + 1) for c, n in zip(chosen, bounds, strict=True))
        if left >= 0:
            answer += (-1) ** sum(chosen) * comb(left + 2, 2)
    return answer


def forbidden_chairs(forbidden):
    # The permanent of the allowed seats, by Ryser's formula.
    allowed = [[int(seat not in chairs) for seat in range(6)] for chairs in forbidden]
    total = 0
    for size in range(1, 7):
        for columns in combinations(range(6), size):
            total += (-1) ** (6 - size) * math.prod(sum(row[c] for c in columns) for row in allowed)
    return total


def flips_without_runs(flips, heads, limits):
    sequences = (f"{number:0{flips}b}" for number in range(2**flips))
    chosen = (text for text in sequences if text.count("1") == heads)
    return sum("1" * limits[0] not in text and "0" * limits[1] not in text for text in chosen)


def necklaces(counts):
    total = sum(counts)  # Burnside
    fixed = 0
    for turn in range(total):
        cycles = math.gcd(turn, total)
        length = total // cycles
        if all(c % length == 0 for c in counts):
            fixed += math.factorial(cycles) // math.prod(math.factorial(c // length) for c in counts)
    return fixed // total


def subsets_without_differences(n, size, d, e):
    subsets = combinations(range(n), size)
    return sum(not {y - x for x, y in combinations(chosen, 2)} & {d, e} for chosen in subsets)


def subset_sum_remainder(n, size, modulus, remainder):
    ways = {(0, 0): 1}
    for x in range(1, n + 1):
        for (count, rest), number in list(ways.items()):
            key = (count + 1, (rest + x) % modulus)
            ways[key] = ways.get(key, 0) + number
    # Adding to the table while a copy is read counts each x once.
    return ways.get((size, remainder), 0)


def counting_votes(a, b, lead):
    # Reflection: orders that reach a lead of lead + 1 correspond to all that end reflected.
    return comb(a + b, a) - comb(a + b, b + lead + 1)


# ------------------------------------------------------------------ probability
def two_dice(a, b, low, high):
    hits = sum(max(0, min(b, high - x) - max(1, low - x) + 1) for x in range(1, a + 1))
    return parts(Fraction(hits, a * b))


def same_color(counts):
    return parts(Fraction(sum(comb(n, 2) for n in counts), comb(sum(counts), 2)))


def random_divisibility(a, b, c, bound):
    def union(*numbers):
        return bound // math.lcm(*numbers)

    good = union(a) + union(b) - union(a, b)
    bad = union(a, c) + union(b, c) - union(a, b, c)
    return parts(Fraction(good - bad, bound))


def taking_turns(p, q):
    p, q = Fraction(*p), Fraction(*q)
    return parts(p / (1 - (1 - p) * (1 - q)))


def meeting_by_chance(first_wait, second_wait):
    return parts(1 - Fraction((60 - first_wait) ** 2 + (60 - second_wait) ** 2, 2 * 60 * 60))


def matched_pairs(pairs, drawn, whole):
    singles = drawn - 2 * whole
    good = comb(pairs, whole) * comb(pairs - whole, singles) * 2**singles
    return parts(Fraction(good, comb(2 * pairs, drawn)))


def spread_of_a_draw(n, drawn, low, high):
    good = sum((n - d) * comb(d - 1, drawn - 2) for d in range(low, high + 1))
    return parts(Fraction(good, comb(n, drawn)))


def walk_to_an_end(p, length, start):
    p = Fraction(*p)
    if p == Fraction(1, 2):
        return parts(Fraction(start, length))
    r = (1 - p) / p
    return parts((1 - r**start) / (1 - r**length))


def waiting_for_a_pattern(pattern, p):
    p = Fraction(*p)

    def chance(text):
        return math.prod(p if c == "H" else 1 - p for c in text)

    # Conway: the sum of 1 / chance over the prefixes that are suffixes as well.
    overlaps = (k for k in range(1, len(pattern) + 1) if pattern[:k] == pattern[-k:])
    return parts(sum(1 / Fraction(chance(pattern[:k])) for k in overlaps))


# ------------------------------------------------------------------ algebra
def products_in_pairs(products):
    ab, bc, ca = products
    abc = math.isqrt(ab * bc * ca)
    assert abc * abc == ab * bc * ca
    return Fraction(abc, bc) + Fraction(abc, ca) + Fraction(abc, ab)


def absolute_values(points, bound):
    b = points[1]

    def total(x):
        return sum(abs(x - p) for p in points)

    high = b
    while total(high + 1) <= bound:
        high += 1
    low = b
    while total(low - 1) <= bound:
        low -= 1
    return high - low + 1


def power_sum_of_roots(p, q, power):
    root = cmath.sqrt(p * p - 4 * q)
    value = ((p + root) / 2) ** power + ((p - root) / 2) ** power
    assert abs(value.imag) < 1e-6
    return round(value.real)


def cubic_through_points(values, target):
    total = Fraction(0)  # Lagrange
    for i, value in enumerate(values, 1):
        weights = (Fraction(target - j, i - j) for j in range(1, 5) if j != i)
        total += value * math.prod(weights)
    return total


def equal_floors(a, b):
    answer = -1  # n = 0 is counted by the sum below
    for k in range(a * b):
        low, high = k * b, (k + 1) * a - 1
        if high < low:
            break
        answer += high - low + 1
    return answer


def two_logarithms(base, k, m, sums):
    p, q = (Fraction(*s) for s in sums)
    # u + v/k = p and u/m + v = q
    v = (q - p / m) / (1 - Fraction(1, k * m))
    u = p - v / k
    assert u.denominator == v.denominator == 1
    return base ** int(u) + base ** int(v)


def best_product(p, q, total):
    points = ((Fraction(total - q * b, p), b) for b in range(1, total))
    return max(a * b for a, b in points if a > 0 and a.denominator == 1)


def product_over_roots(cubic, u, v):
    roots = np.roots(cubic)
    value = np.prod([r * r + u * r + v for r in roots])
    assert abs(value.imag) < 1e-4
    return round(value.real)


def swapped_argument(k, centre, quadratic, at):
    a, b, c = quadratic

    def g(x):
        return a * x * x + b * x + c

    return parts(Fraction(k * g(centre - at) - g(at), k * k - 1))


def roots_of_unity(n, coefficients):
    a, b, c = coefficients
    value = 1
    for k in range(n):
        w = cmath.exp(2j * cmath.pi * k / n)
        value *= a + b * w + c * w * w
    assert abs(value.imag) < 1e-3 * max(1, abs(value))
    assert abs(value.real - round(value.real)) < 0.01
    return round(value.real) % 1000


# ------------------------------------------------------------------ geometry
def foot_of_the_altitude(a, b):
    return parts(Fraction(a * b, math.isqrt(a * a + b * b)))


def painted_block(size, faces, bare_bottom):
    a, b, c = size
    if not bare_bottom:
        u, v, w = a - 2, b - 2, c - 2
        return (u * v * w, 2 * (u * v + v * w + w * u), 4 * (u + v + w), 8)[faces]
    u, v, w = a - 2, b - 2, c - 1  # only the top layer has a painted large face
    return (u * v * w, 2 * w * (u + v) + u * v, 4 * w + 2 * (u + v), 4)[faces]


def median_length(sides):
    a, b, c = sides
    return parts(Fraction(2 * b * b + 2 * c * c - a * a, 4))


def common_tangent(radii, centres):
    small, large = radii
    # Place the line as the x-axis: the centers are (0, small) and (PQ, large).
    assert centres > small + large
    length = math.sqrt(centres**2 - (large - small) ** 2)
    assert math.isclose(math.dist((0, small), (length, large)), centres)
    return round(length)


def points_inside_a_triangle(corners):
    (ax, ay), (bx, by), (cx, cy) = corners
    doubled = abs((bx - ax) * (cy - ay) - (cx - ax) * (by - ay))
    edge = sum(
        math.gcd(x - u, y - v) for (x, y), (u, v) in zip(corners, [*corners[1:], corners[0]], strict=True)
    )
    return (doubled - edge + 2) // 2  # Pick


def angle_bisector(sides):
    a, b, c = sides
    return parts(b * c * (1 - Fraction(a, b + c) ** 2))


def diagonal_through_cubes(size):
    a, b, c = size
    return a + b + c - math.gcd(a, b) - math.gcd(b, c) - math.gcd(c, a) + math.gcd(a, b, c)


def circumcircle(sides):
    a, b, c = sides
    sixteen = (a + b + c) * (-a + b + c) * (a - b + c) * (a + b - c)
    root = math.isqrt(sixteen)
    assert root * root == sixteen
    return parts(Fraction(a * b * c, root))


def triangles_in_a_polygon(n, kind, at_first):
    # Arcs (x, y, z) with sum n, the triangle at corner 0: ordered arcs are the triangles with A_1.
    count = 0
    for x in range(1, n - 1):
        for y in range(1, n - x):
            angles = sorted((x, y, n - x - y))
            words = {
                "acute" if 2 * angles[2] < n else "right-angled" if 2 * angles[2] == n else "obtuse",
                "scalene" if angles[0] < angles[1] < angles[2] else "isosceles",
            }
            count += set(kind.split()) <= words
    return count if at_first else count * n // 3


def cyclic_quadrilateral(sides):
    a, b, c, d = sides
    return parts(Fraction((a * c + b * d) * (a * d + b * c), a * b + c * d))


# ------------------------------------------------------------------ sequences
def arithmetic_term(known, wanted):
    (i, x), (j, y) = known
    return x + Fraction(y - x, j - i) * (wanted - i)


def what_is_left(a, b, position):
    def up_to(n):
        kept = n - n // a - n // b + n // math.lcm(a, b)
        return kept - sum(1 for s in range(1, math.isqrt(n) + 1) if s * s % a and s * s % b)

    low, high = 1, 100_000
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if up_to(middle) >= position else (middle + 1, high)
    return low


def recurrence_remainder(p, q, first, second, n):
    power = np.linalg.matrix_power(np.array([[p, q], [1, 0]], dtype=object), n - 1)
    return (power[1][0] * second + power[1][1] * first) % 1000


def sum_of_unit_products(step, start, terms):
    last = start + terms * step
    return parts(Fraction(1, step) * (Fraction(1, start) - Fraction(1, last)))


def sum_of_floors(low, high, multiplier):
    def up_to(n):
        roots = range(1, math.isqrt(multiplier * n) + 1)
        return sum(n - (s * s + multiplier - 1) // multiplier + 1 for s in roots)

    return up_to(high) - up_to(low - 1)


def row_of_digits(first, position):
    def digit(index):
        number, width = first, len(str(first))
        while True:
            block = (10**width - number) * width
            if index <= block:
                return str(number + (index - 1) // width)[(index - 1) % width]
            index, number, width = index - block, 10**width, width + 1

    return int("".join(digit(position + i) for i in range(3)))


def returning_recurrence(first, second, root, n):
    a, b = Fraction(*first), Fraction(*second)
    r = root
    # With x = r y the recurrence is y_n = (1 + y_{n-1}) / y_{n-2}, which has period 5.
    y1, y2 = a / r, b / r
    cycle = [y1, y2, (1 + y2) / y1, (1 + y1 + y2) / (y1 * y2), (1 + y1) / y2]
    return parts(r * cycle[(n - 1) % 5])


def infinite_sum(a, b, c, ratio):
    x = Fraction(1, ratio)
    closed = a * x * (1 + x) / (1 - x) ** 3 + b * x / (1 - x) ** 2 + c * x / (1 - x)
    assert math.isclose(closed, sum((a * k * k + b * k + c) / ratio**k for k in range(1, 80)), rel_tol=1e-9)
    return parts(closed)


def last_in_the_circle(people, step):
    survivor = 0
    for size in range(2, people + 1):
        survivor = (survivor + step) % size
    return survivor + 1


def first_multiple(p, q, modulus):
    terms = [0, 1]
    while len(terms) < 1001:
        terms.append(p * terms[-1] + q * terms[-2])
    # Exact terms, checked at every index below by divisibility alone.
    return next(n for n in range(1, 1001) if terms[n] % modulus == 0)


SECOND_WAY = {name: globals()[name] for name in TEMPLATES if name in globals()}


def drawn(name, count, seed=2024):
    rng = random.Random(f"{name}/{seed}")
    found = []
    for _ in range(400 * count):
        question = TEMPLATES[name].draw(rng)
        if question is not None:
            found.append(question)
            if len(found) == count:
                return found
    pytest.fail(f"{name} gave {len(found)} of {count} questions")


@pytest.mark.parametrize(
    ("answer", "drawn"), [(4, False), (5, True), (999, True), (1000, False), (Fraction(11, 2), False)]
)
def test_a_draw_needs_an_integer_from_the_least_answer_to_999(answer, drawn):
    template = Template("any", "algebra", 1, 5, lambda rng: Question("?", answer, {}))
    assert (template.draw(random.Random(0)) is not None) == drawn


def test_a_draw_without_what_it_needs_is_given_up():
    assert Template("none", "algebra", 1, 0, lambda rng: need(False)).draw(random.Random(0)) is None


def test_there_are_enough_templates_and_each_is_solved_twice():
    assert set(SECOND_WAY) == set(TEMPLATES)
    assert len(TEMPLATES) >= 40
    topics = Counter(t.topic for t in TEMPLATES.values())
    assert len(topics) == 6 and min(topics.values()) >= 5
    levels = Counter(t.level for t in TEMPLATES.values())
    assert sorted(levels) == [1, 2, 3, 4, 5] and min(levels.values()) >= 5


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_the_answer_is_found_by_a_second_method(name):
    for question in drawn(name, DRAWS):
        assert SECOND_WAY[name](**question.parameters) == question.answer, question.statement


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_questions_vary_and_read_well(name):
    questions = drawn(name, DRAWS, seed=7)
    assert len({q.statement for q in questions}) >= DRAWS // 2
    assert len({int(q.answer) for q in questions}) >= 8
    for question in questions:
        text = question.statement
        assert text.count("$") % 2 == 0
        assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
        # What an f-string leaves behind when it goes wrong
        assert not re.search(r"Fraction|None|True|False|\+\+|\+-|--|  |\b1[a-z]_|\bx\+0\b", text), text
        assert text.endswith((".", "?", ".)", ".$$"))
        assert json.loads(json.dumps(question.parameters)) == question.parameters
