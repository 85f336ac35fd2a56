"""Combinatorics templates: answers by listing, or by adding up counts cell by cell."""

import random
from collections import Counter
from collections.abc import Callable
from itertools import combinations, permutations, product

from mars_env.problems.aime.template import Question, listing, need, template

NAMES = ("Ada", "Ben", "Chloe", "Dan", "Elif", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Kira", "Liam")
COLORS = ("red", "blue", "green", "yellow", "white", "black", "purple", "orange")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")


@template("combinatorics", level=1)
def committee(rng: random.Random) -> Question:
    kind, other = rng.sample(
        ["algebraists", "geometers", "historians", "pianists", "chemists", "painters", "rowers", "sailors"], 2
    )
    a, b, size = rng.randint(3, 7), rng.randint(3, 7), rng.randint(3, 5)
    least, other_least = rng.randint(1, size - 1), rng.randint(0, 1)
    need(a + b <= 12 and least + other_least <= size)
    groups = combinations(range(a + b), size)
    members = [sum(person < a for person in group) for group in groups]
    answer = sum(number >= least and size - number >= other_least for number in members)
    rest = f" and at least ${other_least}$ of the {other}" if other_least else ""
    statement = (
        f"A club has ${a}$ {kind} and ${b}$ {other}, and nobody is both. In how many ways can a committee of"
        f" ${size}$ members be formed that includes at least ${least}$ of the {kind}{rest}?"
    )
    parameters = {"a": a, "b": b, "size": size, "least": least, "other_least": other_least}
    return Question(statement, answer, parameters)


@template("combinatorics", level=2)
def paths_around_points(rng: random.Random) -> Question:
    width, height = rng.randint(4, 8), rng.randint(3, 7)
    cells = [(x, y) for x in range(width + 1) for y in range(height + 1)][1:-1]
    closed = sorted(rng.sample(cells, 2))
    walks = _walks(width, height, lambda x, y: (x, y) not in closed)
    (a, b), (c, d) = closed
    statement = (
        f"A robot walks on the grid points of the plane from $(0,0)$ to $({width},{height})$. Each step goes"
        f" one unit to the right or one unit up. The points $({a},{b})$ and $({c},{d})$ are blocked. How many"
        " different walks visit neither of the blocked points?"
    )
    parameters = {"width": width, "height": height, "closed": [[a, b], [c, d]]}
    return Question(statement, walks, parameters)


@template("combinatorics", level=2)
def bounded_sums(rng: random.Random) -> Question:
    bounds = [rng.randint(4, 20) for _ in range(3)]
    total = rng.randint(8, 30)
    a, b, c = bounds
    need(total < sum(bounds))
    answer = sum(1 for x in range(a + 1) for y in range(b + 1) if 0 <= total - x - y <= c)
    colors = rng.sample(COLORS, 3)
    supply = listing([f"${n}$ {color}" for n, color in zip(bounds, colors, strict=True)])
    statement = (
        f"A jar holds {supply} marbles; marbles of one color cannot be told apart. How many different"
        f" collections of ${total}$ marbles can be taken from the jar?"
    )
    return Question(statement, answer, {"bounds": bounds, "total": total})


@template("combinatorics", level=3, least=5)
def forbidden_chairs(rng: random.Random) -> Question:
    people = sorted(rng.sample(NAMES, 6))
    forbidden = [sorted(rng.sample(range(6), rng.choice((0, 1, 1, 2, 2, 3)))) for _ in people]
    seatings = permutations(range(6))
    answer = sum(not any(s in f for s, f in zip(seats, forbidden, strict=True)) for seats in seatings)
    wishes = listing(
        [
            f"{name} refuses the {listing([ORDINALS[chair] for chair in chairs])}"
            f" chair{'s' if len(chairs) > 1 else ''}"
            for name, chairs in zip(people, forbidden, strict=True)
            if chairs
        ]
    )
    need(wishes != "")
    statement = (
        f"{listing(people)} sit down on six chairs in a row, one on each chair. {wishes}. In how many ways"
        " can all six be seated so that nobody sits on a chair that he or she refuses?"
    )
    return Question(statement, answer, {"forbidden": forbidden})


@template("combinatorics", level=3, least=5)
def flips_without_runs(rng: random.Random) -> Question:
    flips, heads = rng.randint(8, 16), rng.randint(3, 10)
    limits = {"H": rng.randint(2, 4), "T": rng.randint(2, 5)}
    need(heads <= flips - 3)
    # The number of sequences so far, by number of heads, last result and length of the last run.
    ways = Counter({(1, "H", 1): 1, (0, "T", 1): 1})
    for _ in range(flips - 1):
        new = Counter[tuple[int, str, int]]()
        for (seen, last, run), side in product(ways, "HT"):
            longer = run + 1 if side == last else 1
            if longer < limits[side]:
                new[seen + (side == "H"), side, longer] += ways[seen, last, run]
        ways = new
    answer = sum(count for (seen, _, _), count in ways.items() if seen == heads)
    statement = (
        f"A coin is flipped ${flips}$ times. How many of the possible sequences of results have exactly"
        f" ${heads}$ heads, but nowhere ${limits['H']}$ or more heads in a row and nowhere ${limits['T']}$ or"
        " more tails in a row?"
    )
    return Question(statement, answer, {"flips": flips, "heads": heads, "limits": [limits["H"], limits["T"]]})


@template("combinatorics", level=4)
def necklaces(rng: random.Random) -> Question:
    counts = [rng.randint(1, 4) for _ in range(3)]
    total = sum(counts)
    need(5 <= total <= 8)
    colors = rng.sample(COLORS, 3)
    beads: list[tuple[int, ...]] = [()]
    for _ in range(total):
        beads = [(*b, c) for b in beads for c in range(3) if b.count(c) < counts[c]]
    answer = len({min(b[i:] + b[:i] for i in range(total)) for b in beads})
    supply = listing([f"${n}$ {color}" for n, color in zip(counts, colors, strict=True)])
    statement = (
        f"The {supply} chips of a game are laid out in a circle on a turntable, at equal distances. Chips of"
        " one color cannot be told apart, and two layouts that differ only by a rotation of the turntable"
        " count as one (mirror images count as different). How many different layouts are there?"
    )
    return Question(statement, answer, {"counts": counts})


@template("combinatorics", level=4, least=5)
def subsets_without_differences(rng: random.Random) -> Question:
    n, size = rng.randint(8, 14), rng.randint(3, 4)
    d, e = sorted(rng.sample(range(1, 7), 2))
    masks = [sum(1 << i for i in chosen) for chosen in combinations(range(n), size)]
    answer = sum(not (mask & (mask >> d) or mask & (mask >> e)) for mask in masks)
    statement = (
        f"How many subsets of $\\{{1, 2, 3, \\ldots, {n}\\}}$ with exactly ${size}$ elements contain no two"
        f" elements whose difference is ${d}$ and no two elements whose difference is ${e}$?"
    )
    return Question(statement, answer, {"n": n, "size": size, "d": d, "e": e})


@template("combinatorics", level=5)
def subset_sum_remainder(rng: random.Random) -> Question:
    n, size, modulus = rng.randint(9, 13), rng.randint(3, 5), rng.randint(4, 11)
    remainder = rng.randrange(modulus)
    answer = sum(1 for chosen in combinations(range(1, n + 1), size) if sum(chosen) % modulus == remainder)
    statement = (
        f"How many ways are there to choose ${size}$ different integers from $1$ to ${n}$, without regard to"
        f" order, so that their sum leaves a remainder of ${remainder}$ when divided by ${modulus}$?"
    )
    return Question(statement, answer, {"n": n, "size": size, "modulus": modulus, "remainder": remainder})


@template("combinatorics", level=5)
def counting_votes(rng: random.Random) -> Question:
    first, second = rng.sample(NAMES, 2)
    a, b, lead = rng.randint(3, 8), rng.randint(3, 8), rng.randint(1, 4)
    need(a - b <= lead)
    orders = _walks(a, b, lambda x, y: x - y <= lead)
    statement = (
        f"In an election {first} gets ${a}$ votes and {second} gets ${b}$ votes. The votes are counted one at"
        " a time. In how many orders, written as sequences of the two names, can they be counted so that"
        f" {first} is at no time more than ${lead}$ vote{'s' if lead > 1 else ''} ahead of {second}?"
    )
    return Question(statement, orders, {"a": a, "b": b, "lead": lead})


def _walks(width: int, height: int, allowed: Callable[[int, int], bool]) -> int:
    """How many walks lead from (0, 0) to a point by steps to the right and up over allowed points."""
    ways = {(0, 0): 1}
    for point in product(range(width + 1), range(height + 1)):
        x, y = point
        if point != (0, 0) and allowed(x, y):
            ways[point] = ways.get((x - 1, y), 0) + ways.get((x, y - 1), 0)
    return ways[width, height]
