"""Level 2: a known technique, or care with several cases.

The file is long because it is a list of independent problems.
"""

from __future__ import annotations

import itertools
import random

from programs.spec import Program, numbers, word

MEDIUM = (
    Program(
        "best_segment",
        2,
        "stdin",
        "Read n (1 <= n <= 100), then n integers on one line. Print the largest sum of a non-empty"
        " block of neighbouring numbers.",
        ("a",),
        """
        input()
        best = here = None
        for x in map(int, input().split()):
            here = x if here is None or here < 0 else here + x
            best = here if best is None else max(best, here)
        print(best)
        """,
        lambda a: max(sum(a[i:j]) for i in range(len(a)) for j in range(i + 1, len(a) + 1)),
        (([2, -5, 4, -1, 3],), ([-3, -2],)),
        lambda r: (numbers(r, 15, -9, 9),),
    ),
    Program(
        "brackets",
        2,
        "stdin",
        "Read a line of the brackets ()[]{}. Print yes if they are balanced and properly nested, else no.",
        ("s",),
        """
        stack = []
        ok = True
        for c in input():
            if c in '([{':
                stack.append(c)
            elif not stack or stack.pop() + c not in ('()', '[]', '{}'):
                ok = False
                break
        print('yes' if ok and not stack else 'no')
        """,
        lambda s: _brackets(s),
        (("{[()]}",), ("([)]",)),
        lambda r: (_bracket_text(r),),
    ),
    Program(
        "prime_count",
        2,
        "stdin",
        "Read two integers a and b (1 <= a <= b <= 2000) on one line. Print how many primes p have a"
        " <= p <= b.",
        ("a", "b"),
        """
        a, b = map(int, input().split())
        sieve = [False, False] + [True] * b
        for p in range(2, b + 1):
            if sieve[p]:
                for q in range(p * p, b + 1, p):
                    sieve[q] = False
        print(sum(sieve[a:b + 1]))
        """,
        lambda a, b: sum(n > 1 and all(n % d for d in range(2, n)) for n in range(a, b + 1)),
        ((1, 10), (14, 16)),
        # A bound that is a prime detects programs that exclude the bound.
        lambda r: tuple(sorted((r.randint(1, 600), r.choice((r.randint(1, 600), 97, 311, 599))))),
        lambda a, b: f"{a} {b}",
    ),
    Program(
        "merge_intervals",
        2,
        "stdin",
        "Read n (1 <= n <= 30), then n lines with two integers l and r (l <= r): closed intervals."
        " Print how many integers lie in at least one of them.",
        ("intervals",),
        """
        n = int(input())
        parts = sorted(tuple(map(int, input().split())) for _ in range(n))
        total, end = 0, None
        for l, r in parts:
            if end is None or l > end:
                total += r - l + 1
                end = r
            elif r > end:
                total += r - end
                end = r
        print(total)
        """,
        lambda intervals: len({x for low, high in intervals for x in range(low, high + 1)}),
        (([(1, 3), (2, 5), (9, 9)],), ([(0, 0)],)),
        lambda r: (_intervals(r),),
        lambda intervals: f"{len(intervals)}\n" + "\n".join(f"{low} {high}" for low, high in intervals),
    ),
    Program(
        "grid_paths",
        2,
        "stdin",
        "Read h and w (1 <= h, w <= 8) on one line, then h lines of w characters, '.' or '#'. Print"
        " how many paths lead from the upper left to the lower right cell with steps to the right and"
        " down over '.' cells only.",
        ("grid",),
        """
        h, w = map(int, input().split())
        ways = [0] * w
        for i in range(h):
            row = input()
            for j in range(w):
                if row[j] == '#':
                    ways[j] = 0
                elif i == 0 and j == 0:
                    ways[j] = 1
                elif j:
                    ways[j] += ways[j - 1]
        print(ways[-1])
        """,
        lambda grid: _paths(grid, 0, 0),
        ((["..", ".."],), ([".#", "#."],)),
        lambda r: (_grid(r),),
        lambda grid: f"{len(grid)} {len(grid[0])}\n" + "\n".join(grid),
    ),
    Program(
        "common_subsequence",
        2,
        "stdin",
        "Read two lines of small letters, each of 1 to 40. Print the length of their longest common"
        " subsequence.",
        ("s", "t"),
        """
        s, t = input(), input()
        before = [0] * (len(t) + 1)
        for c in s:
            now = [0]
            for j, d in enumerate(t):
                now.append(before[j] + 1 if c == d else max(now[j], before[j + 1]))
            before = now
        print(before[-1])
        """,
        lambda s, t: max(
            k for k in range(len(s) + 1) for part in itertools.combinations(s, k) if _is_subsequence(part, t)
        ),
        (("abcbd", "acbd"), ("a", "b")),
        lambda r: (word(r, 9, "abc"), word(r, 9, "abc")),
    ),
    Program(
        "base_convert",
        2,
        "stdin",
        "Read n (0 <= n < 10^9) and a base b (2 <= b <= 16) on one line. Print n in base b, with"
        " small letters for digits above 9.",
        ("n", "b"),
        """
        n, b = map(int, input().split())
        digits = ''
        while n:
            digits = '0123456789abcdef'[n % b] + digits
            n //= b
        print(digits or '0')
        """,
        lambda n, b: _in_base(n, b),
        ((255, 16), (0, 2)),
        lambda r: (r.randrange(10 ** r.randint(1, 9)), r.randint(2, 16)),
        lambda n, b: f"{n} {b}",
    ),
    Program(
        "two_sum",
        2,
        "function_call",
        "returns the positions [i, j], i < j, of two numbers in a with the sum target; the pair with"
        " the smallest j, and of those the one with the smallest i. If there is none, it returns [].",
        ("a", "target"),
        """
        def two_sum(a, target):
            seen = {}
            for j, x in enumerate(a):
                if target - x in seen:
                    return [seen[target - x], j]
                seen.setdefault(x, j)
            return []
        """,
        lambda a, target: next(
            ([i, j] for j in range(len(a)) for i in range(j) if a[i] + a[j] == target), []
        ),
        (([2, 7, 11, 15], 9), ([1, 2], 7)),
        lambda r: (numbers(r, 10, -5, 10), r.randint(-5, 15)),
    ),
    Program(
        "spiral",
        2,
        "function_call",
        "returns the items of a rectangular matrix in spiral order: along the first row, down the"
        " last column, back along the last row, up the first column, and so on inwards.",
        ("m",),
        """
        def spiral(m):
            out = []
            while m:
                out += m[0]
                m = [list(row) for row in zip(*m[1:])][::-1]
            return out
        """,
        lambda m: _spiral(m),
        (([[1, 2, 3], [4, 5, 6], [7, 8, 9]],), ([[1]],)),
        lambda r: (_matrix(r),),
    ),
    Program(
        "roman",
        2,
        "function_call",
        "returns n (1 <= n <= 3999) as a Roman numeral.",
        ("n",),
        """
        def roman(n):
            out = ''
            table = [(1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'), (50, 'L'),
                     (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')]
            for value, letters in table:
                out += letters * (n // value)
                n %= value
            return out
        """,
        lambda n: _roman(n),
        ((1994,), (3,)),
        lambda r: (r.randint(1, 3999),),
    ),
    Program(
        "coin_change",
        2,
        "function_call",
        "returns the smallest number of coins with the sum amount, where each coin of the list can be"
        " used any number of times, or -1 if the amount cannot be paid (0 <= amount <= 60).",
        ("coins", "amount"),
        """
        def coin_change(coins, amount):
            best = [0] + [None] * amount
            for x in range(1, amount + 1):
                options = [best[x - c] + 1 for c in coins if c <= x and best[x - c] is not None]
                best[x] = min(options) if options else None
            return -1 if best[amount] is None else best[amount]
        """,
        lambda coins, amount: _coins(coins, amount),
        (([1, 3, 4], 6), ([5], 3)),
        lambda r: (sorted(set(numbers(r, 3, 2, 9))), r.randint(0, 25)),
    ),
    Program(
        "longest_unique",
        2,
        "function_call",
        "returns the length of the longest block of a text in which no character occurs twice.",
        ("s",),
        """
        def longest_unique(s):
            start, best, last = 0, 0, {}
            for i, c in enumerate(s):
                start = max(start, last.get(c, -1) + 1)
                last[c] = i
                best = max(best, i - start + 1)
            return best
        """,
        lambda s: max(
            j - i for i in range(len(s) + 1) for j in range(i, len(s) + 1) if len(set(s[i:j])) == j - i
        ),
        (("abcabcbb",), ("",)),
        lambda r: (word(r, 14, "abcde"),),
    ),
    Program(
        "next_permutation",
        2,
        "function_call",
        "returns the permutation of the list a that follows it in lexicographic order; after the last"
        " comes the first.",
        ("a",),
        """
        def next_permutation(a):
            a = list(a)
            i = len(a) - 2
            while i >= 0 and a[i] >= a[i + 1]:
                i -= 1
            if i >= 0:
                j = len(a) - 1
                while a[j] <= a[i]:
                    j -= 1
                a[i], a[j] = a[j], a[i]
            return a[:i + 1] + a[i + 1:][::-1]
        """,
        lambda a: _next(a),
        (([1, 3, 2],), ([2, 1],)),
        lambda r: (numbers(r, 5, 1, 4, least=2),),
    ),
    Program(
        "evaluate_rpn",
        2,
        "function_call",
        "evaluates an expression in reverse Polish notation, given as a list of texts: integers and"
        " the operators '+', '-' and '*'.",
        ("tokens",),
        """
        def evaluate_rpn(tokens):
            stack = []
            for t in tokens:
                if t in ('+', '-', '*'):
                    b, a = stack.pop(), stack.pop()
                    stack.append(a + b if t == '+' else a - b if t == '-' else a * b)
                else:
                    stack.append(int(t))
            return stack[0]
        """,
        lambda tokens: _rpn(list(tokens)),
        ((["2", "3", "+", "4", "*"],), (["7"],)),
        lambda r: (_expression(r, r.randint(1, 3)),),
    ),
    Program(
        "group_anagrams",
        2,
        "asserts",
        "groups the words of a list that are anagrams of each other: it returns a list of groups,"
        " each in the order of the list, the groups in the order of their first words.",
        ("words",),
        """
        def group_anagrams(words):
            groups = {}
            for w in words:
                groups.setdefault(''.join(sorted(w)), []).append(w)
            return list(groups.values())
        """,
        lambda words: _anagrams(words),
        ((["tea", "tan", "eat", "nat"],), ([],)),
        lambda r: ([word(r, 3, "ab") for _ in range(r.randint(1, 8))],),
    ),
    Program(
        "transpose",
        2,
        "asserts",
        "returns the transpose of a rectangular matrix, given as a list of rows, each with at least"
        " one item; the transpose of [] is [].",
        ("m",),
        """
        def transpose(m):
            return [list(column) for column in zip(*m)]
        """,
        lambda m: [[row[j] for row in m] for j in range(len(m[0]))] if m else [],
        (([[1, 2, 3], [4, 5, 6]],), ([],)),
        lambda r: (_matrix(r),),
    ),
    Program(
        "majority",
        2,
        "asserts",
        "returns the value that fills more than half of the places of a list, or None if there is none.",
        ("a",),
        """
        def majority(a):
            value, lead = None, 0
            for x in a:
                if lead == 0:
                    value = x
                lead += 1 if x == value else -1
            return value if a and a.count(value) * 2 > len(a) else None
        """,
        lambda a: next((x for x in a if a.count(x) > len(a) / 2), None),
        (([2, 1, 2],), ([1, 2],)),
        lambda r: (numbers(r, 9, 1, 2 + r.randint(0, 1)),),
    ),
    Program(
        "prime_factors",
        2,
        "asserts",
        "returns the prime factorisation of n (1 <= n <= 5000) as a dictionary from primes to exponents.",
        ("n",),
        """
        def prime_factors(n):
            out, p = {}, 2
            while p * p <= n:
                while n % p == 0:
                    out[p] = out.get(p, 0) + 1
                    n //= p
                p += 1
            if n > 1:
                out[n] = out.get(n, 0) + 1
            return out
        """,
        lambda n: _factors(n),
        ((360,), (1,)),
        lambda r: (r.randint(2, 5000),),
    ),
    Program(
        "justify",
        2,
        "asserts",
        "breaks a list of words into lines of at most width characters, with one space between words,"
        " putting as many words on each line as fit; no word is longer than width. It returns the list"
        " of lines.",
        ("words", "width"),
        """
        def justify(words, width):
            lines = []
            for w in words:
                if lines and len(lines[-1]) + 1 + len(w) <= width:
                    lines[-1] += ' ' + w
                else:
                    lines.append(w)
            return lines
        """,
        lambda words, width: _lines(words, width),
        ((["the", "cat", "sat"], 7), ([], 4)),
        lambda r: ([word(r, 4, "ab") for _ in range(r.randint(1, 8))], r.randint(4, 10)),
    ),
    Program(
        "binary_search",
        2,
        "asserts",
        "returns the position at which x must be put into the increasing list a to keep it"
        " increasing, before any items equal to x.",
        ("a", "x"),
        """
        def binary_search(a, x):
            low, high = 0, len(a)
            while low < high:
                middle = (low + high) // 2
                if a[middle] < x:
                    low = middle + 1
                else:
                    high = middle
            return low
        """,
        lambda a, x: sum(y < x for y in a),
        (([1, 3, 3, 7], 3), ([], 1)),
        lambda r: (sorted(numbers(r, 9, 0, 9)), r.randint(-1, 10)),
    ),
    Program(
        "life_step",
        2,
        "asserts",
        "returns the next state of Conway's game of life on a rectangular board of 0 and 1, given as"
        " a list of rows (cells outside the board are dead).",
        ("board",),
        """
        def life_step(board):
            h, w = len(board), len(board[0])
            new = [[0] * w for _ in range(h)]
            for i in range(h):
                for j in range(w):
                    n = -board[i][j]
                    for a in range(max(0, i - 1), min(h, i + 2)):
                        n += sum(board[a][max(0, j - 1):j + 2])
                    new[i][j] = 1 if n == 3 or (n == 2 and board[i][j]) else 0
            return new
        """,
        lambda board: _life(board),
        (([[0, 1, 0], [0, 1, 0], [0, 1, 0]],), ([[1]],)),
        lambda r: (_matrix(r, 1),),
    ),
)


def _brackets(s: str) -> bool:
    before = None
    while before != s:
        before = s
        s = s.replace("()", "").replace("[]", "").replace("{}", "")
    return not s


def _bracket_text(r: random.Random) -> str:
    text = ""
    for _ in range(r.randint(1, 5)):
        pair = r.choice(["()", "[]", "{}"])
        at = r.randint(0, len(text))
        text = text[:at] + pair + text[at:]
    if r.random() < 0.5:
        at = r.randrange(len(text))
        text = text[:at] + r.choice("()[]{}") + text[at + 1 :]
    return text


def _intervals(r: random.Random) -> list[tuple[int, int]]:
    starts = numbers(r, 6, -20, 20)
    return [(low, low + r.randint(0, 10)) for low in starts]


def _grid(r: random.Random) -> list[str]:
    h, w = r.randint(1, 5), r.randint(1, 5)
    return ["".join(r.choice("....#") for _ in range(w)) for _ in range(h)]


def _paths(grid: list[str], i: int, j: int) -> int:
    if i == len(grid) or j == len(grid[0]) or grid[i][j] == "#":
        return 0
    if (i, j) == (len(grid) - 1, len(grid[0]) - 1):
        return 1
    return _paths(grid, i + 1, j) + _paths(grid, i, j + 1)


def _is_subsequence(part: tuple[str, ...], text: str) -> bool:
    rest = iter(text)
    return all(c in rest for c in part)


def _in_base(n: int, b: int) -> str:
    head = _in_base(n // b, b) if n >= b else ""
    return head + "0123456789abcdef"[n % b]


def _matrix(r: random.Random, high: int = 9) -> list[list[int]]:
    h, w = r.randint(1, 4), r.randint(1, 4)
    return [[r.randint(0, high) for _ in range(w)] for _ in range(h)]


def _spiral(m: list[list[int]]) -> list[int]:
    left = {(i, j) for i in range(len(m)) for j in range(len(m[0]))}
    at, step, out = (0, 0), (0, 1), []
    while left:
        out.append(m[at[0]][at[1]])
        left.discard(at)
        if (at[0] + step[0], at[1] + step[1]) not in left:
            step = (step[1], -step[0])
        at = (at[0] + step[0], at[1] + step[1])
    return out


def _roman(n: int) -> str:
    def digit(d: int, one: str, five: str, ten: str) -> str:
        return [
            "",
            one,
            one * 2,
            one * 3,
            one + five,
            five,
            five + one,
            five + one * 2,
            five + one * 3,
            one + ten,
        ][d]

    return (
        "M" * (n // 1000)
        + digit(n // 100 % 10, "C", "D", "M")
        + digit(n // 10 % 10, "X", "L", "C")
        + digit(n % 10, "I", "V", "X")
    )


def _coins(coins: list[int], amount: int) -> int:
    reached, steps = {0}, 0
    while amount not in reached:
        more = reached | {x + c for x in reached for c in coins if x + c <= amount}
        if more == reached:
            return -1
        reached, steps = more, steps + 1
    return steps


def _next(a: list[int]) -> list[int]:
    every = sorted(set(itertools.permutations(a)))
    return list(every[(every.index(tuple(a)) + 1) % len(every)])


def _rpn(tokens: list[str]) -> int:
    token = tokens.pop()
    if token not in ("+", "-", "*"):
        return int(token)
    right = _rpn(tokens)
    left = _rpn(tokens)
    return {"+": left + right, "-": left - right, "*": left * right}[token]


def _expression(r: random.Random, depth: int) -> list[str]:
    if depth == 0:
        return [str(r.randint(-9, 9))]
    return [*_expression(r, depth - 1), *_expression(r, r.randrange(depth)), r.choice("+-*")]


def _anagrams(words: list[str]) -> list[list[str]]:
    firsts = [w for i, w in enumerate(words) if not any(sorted(w) == sorted(v) for v in words[:i])]
    return [[w for w in words if sorted(w) == sorted(first)] for first in firsts]


def _factors(n: int) -> dict[int, int]:
    primes = [p for p in range(2, n + 1) if n % p == 0 and all(p % d for d in range(2, p))]
    return {p: max(k for k in range(1, 20) if n % p**k == 0) for p in primes}


def _lines(words: list[str], width: int) -> list[str]:
    if not words:
        return []
    fit = max(k for k in range(1, len(words) + 1) if len(" ".join(words[:k])) <= width)
    return [" ".join(words[:fit]), *_lines(words[fit:], width)]


def _life(board: list[list[int]]) -> list[list[int]]:
    alive = {(i, j) for i, row in enumerate(board) for j, x in enumerate(row) if x}

    def near(i: int, j: int) -> int:
        return sum((i + a, j + b) in alive for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0))

    return [
        [int(near(i, j) == 3 or ((i, j) in alive and near(i, j) == 2)) for j in range(len(row))]
        for i, row in enumerate(board)
    ]
