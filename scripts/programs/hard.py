"""Level 3: an algorithm, or several steps that must fit together.

The file is long because it is a list of independent problems.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from functools import cache
from typing import Any

from programs.spec import Program, numbers, word

Edges = list[tuple[int, int, int]]

HARD = (
    Program(
        "shortest_path",
        3,
        "stdin",
        "Read n and m (2 <= n <= 50, 0 <= m <= 200), then m lines u v w: a road between the towns u"
        " and v (from 1 to n) of length w (1 <= w <= 100). Print the length of the shortest way from"
        " town 1 to town n, or -1.",
        ("n", "edges"),
        """
        import heapq
        n, m = map(int, input().split())
        near = [[] for _ in range(n + 1)]
        for _ in range(m):
            u, v, w = map(int, input().split())
            near[u].append((v, w))
            near[v].append((u, w))
        far = {1: 0}
        heap = [(0, 1)]
        while heap:
            d, u = heapq.heappop(heap)
            if d > far[u]:
                continue
            for v, w in near[u]:
                if d + w < far.get(v, 10 ** 9):
                    far[v] = d + w
                    heapq.heappush(heap, (d + w, v))
        print(far.get(n, -1))
        """,
        lambda n, edges: _shortest(n, edges),
        ((3, [(1, 2, 4), (2, 3, 5), (1, 3, 12)]), (2, [])),
        lambda r: _graph(r),
        lambda n, edges: _graph_lines(n, edges),
    ),
    Program(
        "spanning_tree",
        3,
        "stdin",
        "Read n and m (1 <= n <= 50, 0 <= m <= 200), then m lines u v w: a cable between the houses u"
        " and v (from 1 to n) costs w. Print the smallest cost of cables that connect all houses, or"
        " -1 if it cannot be done.",
        ("n", "edges"),
        """
        n, m = map(int, input().split())
        edges = sorted(tuple(map(int, input().split()))[::-1] for _ in range(m))
        parent = list(range(n + 1))
        def find(x):
            while parent[x] != x:
                parent[x] = parent[parent[x]]
                x = parent[x]
            return x
        cost, joined = 0, 1
        for w, v, u in edges:
            a, b = find(u), find(v)
            if a != b:
                parent[a] = b
                cost += w
                joined += 1
        print(cost if joined == n else -1)
        """,
        lambda n, edges: _spanning(n, edges),
        ((3, [(1, 2, 4), (2, 3, 5), (1, 3, 3)]), (2, [])),
        lambda r: _graph(r, most=5),
        lambda n, edges: _graph_lines(n, edges),
    ),
    Program(
        "knapsack",
        3,
        "stdin",
        "Read n and c (1 <= n <= 30, 0 <= c <= 200), then n lines with weight and value of a thing (1"
        " to 100 each). Print the largest value of things, each taken at most once, with a weight of"
        " at most c together.",
        ("c", "things"),
        """
        n, c = map(int, input().split())
        best = [0] * (c + 1)
        for _ in range(n):
            w, v = map(int, input().split())
            for x in range(c, w - 1, -1):
                best[x] = max(best[x], best[x - w] + v)
        print(best[c])
        """,
        lambda c, things: max(
            sum(v for _, v in chosen)
            for k in range(len(things) + 1)
            for chosen in itertools.combinations(things, k)
            if sum(w for w, _ in chosen) <= c
        ),
        ((5, [(2, 3), (3, 4), (4, 6)]), (1, [(2, 9)])),
        lambda r: (r.randint(5, 30), [(r.randint(1, 12), r.randint(1, 20)) for _ in range(r.randint(1, 8))]),
        lambda c, things: f"{len(things)} {c}\n" + "\n".join(f"{w} {v}" for w, v in things),
    ),
    Program(
        "islands",
        3,
        "stdin",
        "Read h and w (1 <= h, w <= 20) on one line, then h lines of w characters: '#' is land, '.'"
        " is water. Cells that share a side are connected. Print the number of islands and the size of"
        " the largest (0 if none).",
        ("grid",),
        """
        import sys
        h, w, *grid = sys.stdin.read().split()
        h, w = int(h), int(w)
        seen = set()
        sizes = []
        for i in range(h):
            for j in range(w):
                if grid[i][j] == '#' and (i, j) not in seen:
                    seen.add((i, j))
                    stack, size = [(i, j)], 0
                    while stack:
                        a, b = stack.pop()
                        size += 1
                        for c, d in ((a + 1, b), (a - 1, b), (a, b + 1), (a, b - 1)):
                            if 0 <= c < h and 0 <= d < w and grid[c][d] == '#' and (c, d) not in seen:
                                seen.add((c, d))
                                stack.append((c, d))
                    sizes.append(size)
        print(len(sizes), max(sizes, default=0))
        """,
        lambda grid: _islands(grid),
        ((["##.", "..#", "#.#"],), (["."],)),
        lambda r: (
            [
                "".join(r.choice(".#") for _ in range(w))
                for w in [r.randint(1, 6)]
                for _ in range(r.randint(1, 6))
            ],
        ),
        lambda grid: f"{len(grid)} {len(grid[0])}\n" + "\n".join(grid),
    ),
    Program(
        "calculator",
        3,
        "stdin",
        "Read an arithmetic expression of integers, +, -, *, parentheses and spaces. Print its value."
        " (A minus only stands between two operands.)",
        ("text",),
        """
        def evaluate(tokens):
            def atom():
                token = tokens.pop(0)
                if token == '(':
                    value = total()
                    tokens.pop(0)
                    return value
                return int(token)
            def product():
                value = atom()
                while tokens and tokens[0] == '*':
                    tokens.pop(0)
                    value *= atom()
                return value
            def total():
                value = product()
                while tokens and tokens[0] in '+-':
                    value = value + product() if tokens.pop(0) == '+' else value - product()
                return value
            return total()
        text = input()
        for c in '+-*()':
            text = text.replace(c, f' {c} ')
        print(evaluate(text.split()))
        """,
        lambda text: _calculate(text),
        (("2 + 3 * (4 - 1)",), ("7",)),
        lambda r: (_sum_text(r, 3),),
    ),
    Program(
        "inversions",
        3,
        "stdin",
        "Read n (1 <= n <= 10^5), then n integers on one line. Print the number of pairs i < j with"
        " a[i] > a[j].",
        ("a",),
        """
        from bisect import bisect_right, insort
        input()
        seen, count = [], 0
        for x in map(int, input().split()):
            count += len(seen) - bisect_right(seen, x)
            insort(seen, x)
        print(count)
        """,
        lambda a: sum(a[i] > a[j] for i in range(len(a)) for j in range(i + 1, len(a))),
        (([3, 1, 2],), ([1, 1],)),
        lambda r: (numbers(r, 40, 1, 30),),
    ),
    Program(
        "queens",
        3,
        "stdin",
        "Read n (1 <= n <= 8). Print in how many ways n queens can stand on an n x n board so that no"
        " two share a row, a column or a diagonal.",
        ("n",),
        """
        n = int(input())
        def place(row, columns, up, down):
            if row == n:
                return 1
            return sum(place(row + 1, columns | {c}, up | {row + c}, down | {row - c}) for c in range(n)
                       if c not in columns and row + c not in up and row - c not in down)
        print(place(0, frozenset(), frozenset(), frozenset()))
        """,
        lambda n: sum(
            len({c + i for i, c in enumerate(p)}) == len({c - i for i, c in enumerate(p)}) == n
            for p in itertools.permutations(range(n))
        ),
        ((4,), (1,)),
        lambda r: (r.randint(2, 7),),
    ),
    Program(
        "edit_distance",
        3,
        "function_call",
        "returns the smallest number of insertions, deletions and replacements of single characters"
        " that turn the text s into t.",
        ("s", "t"),
        """
        def edit_distance(s, t):
            row = list(range(len(t) + 1))
            for i, c in enumerate(s, 1):
                corner, row[0] = row[0], i
                for j, d in enumerate(t, 1):
                    corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (c != d))
            return row[-1]
        """,
        lambda s, t: _edits(s, t),
        (("kitten", "sitting"), ("", "ab")),
        lambda r: (word(r, 6, "abc"), word(r, 6, "abc")),
    ),
    Program(
        "longest_increasing",
        3,
        "function_call",
        "returns the length of the longest strictly increasing subsequence of a list (up to 10^5 integers).",
        ("a",),
        """
        from bisect import bisect_left
        def longest_increasing(a):
            tails = []
            for x in a:
                i = bisect_left(tails, x)
                tails[i:i + 1] = [x]
            return len(tails)
        """,
        lambda a: max(
            k
            for k in range(len(a) + 1)
            for part in itertools.combinations(a, k)
            if all(x < y for x, y in itertools.pairwise(part))
        ),
        (([3, 1, 2, 5, 4],), ([],)),
        lambda r: (numbers(r, 10, 0, 9),),
    ),
    Program(
        "topological",
        3,
        "function_call",
        "returns an order of the tasks 0 to n - 1 in which each pair [a, b] of the list has a before"
        " b: of all such orders the lexicographically smallest; [] if there is none.",
        ("n", "pairs"),
        """
        import heapq
        def topological(n, pairs):
            after = [[] for _ in range(n)]
            waits = [0] * n
            for a, b in pairs:
                after[a].append(b)
                waits[b] += 1
            ready = [i for i in range(n) if not waits[i]]
            order = []
            while ready:
                a = heapq.heappop(ready)
                order.append(a)
                for b in after[a]:
                    waits[b] -= 1
                    if not waits[b]:
                        heapq.heappush(ready, b)
            return order if len(order) == n else []
        """,
        lambda n, pairs: next(
            (
                list(p)
                for p in itertools.permutations(range(n))
                if all(p.index(a) < p.index(b) for a, b in pairs)
            ),
            [],
        ),
        ((3, [[2, 0], [0, 1]]), (2, [[0, 1], [1, 0]])),
        lambda r: _tasks(r),
    ),
    Program(
        "water",
        3,
        "function_call",
        "returns how many units of water stay between walls of the heights in a list after rain.",
        ("heights",),
        """
        def water(heights):
            left, right = 0, len(heights) - 1
            high_left = high_right = total = 0
            while left < right:
                if heights[left] < heights[right]:
                    high_left = max(high_left, heights[left])
                    total += high_left - heights[left]
                    left += 1
                else:
                    high_right = max(high_right, heights[right])
                    total += high_right - heights[right]
                    right -= 1
            return total
        """,
        lambda heights: sum(
            max(0, min(max(heights[: i + 1]), max(heights[i:])) - h) for i, h in enumerate(heights)
        ),
        (([0, 2, 0, 1, 3],), ([],)),
        lambda r: (numbers(r, 12, 0, 6),),
    ),
    Program(
        "word_break",
        3,
        "function_call",
        "returns in how many ways a text can be cut into words of the list (each as often as you"
        " like; the order of the list does not matter, and no word occurs twice in it).",
        ("s", "words"),
        """
        def word_break(s, words):
            ways = [1] + [0] * len(s)
            for end in range(1, len(s) + 1):
                for w in words:
                    if len(w) <= end and s[end - len(w):end] == w:
                        ways[end] += ways[end - len(w)]
            return ways[-1]
        """,
        lambda s, words: _cuts(s, words),
        (("catsand", ["cat", "cats", "and", "sand"]), ("ab", ["a"])),
        lambda r: (word(r, 8, "ab"), sorted({word(r, 3, "ab") for _ in range(4)})),
    ),
    Program(
        "matrix_power",
        3,
        "function_call",
        "returns the k-th power (k >= 0) of a square integer matrix modulo m (2 <= m <= 1000), as a"
        " list of rows with items from 0 to m - 1.",
        ("a", "k", "m"),
        """
        def matrix_power(a, k, m):
            n = len(a)
            out = [[int(i == j) % m for j in range(n)] for i in range(n)]
            def times(x, y):
                return [[sum(x[i][t] * y[t][j] for t in range(n)) % m for j in range(n)] for i in range(n)]
            while k:
                if k & 1:
                    out = times(out, a)
                a = times(a, a)
                k >>= 1
            return out
        """,
        lambda a, k, m: _power(a, k, m),
        (([[1, 1], [1, 0]], 5, 100), ([[7]], 0, 2)),
        lambda r: _matrix_case(r),
    ),
    Program(
        "subset_sums",
        3,
        "function_call",
        "returns how many of the subsets of the positions of a list (the empty one too) have a sum of"
        " target.",
        ("a", "target"),
        """
        def subset_sums(a, target):
            ways = {0: 1}
            for x in a:
                new = dict(ways)
                for s, n in ways.items():
                    new[s + x] = new.get(s + x, 0) + n
                ways = new
            return ways.get(target, 0)
        """,
        lambda a, target: sum(
            sum(part) == target for k in range(len(a) + 1) for part in itertools.combinations(a, k)
        ),
        (([1, 2, 3], 3), ([], 0)),
        lambda r: (numbers(r, 10, -4, 6), r.randint(-3, 9)),
    ),
    Program(
        "lru_cache",
        3,
        "asserts",
        "simulates a cache of at most capacity items. Each step is ['get', key], which gives the"
        " value or -1, or ['put', key, value]; both make the key the most recently used, and a put of"
        " a new key into a full cache drops the least recently used key. It returns the list of what"
        " the gets gave.",
        ("capacity", "steps"),
        """
        from collections import OrderedDict
        def lru_cache(capacity, steps):
            items, out = OrderedDict(), []
            for step in steps:
                key = step[1]
                if step[0] == 'get':
                    out.append(items.get(key, -1))
                    if key in items:
                        items.move_to_end(key)
                else:
                    if key not in items and len(items) == capacity:
                        items.popitem(last=False)
                    items[key] = step[2]
                    items.move_to_end(key)
            return out
        """,
        lambda capacity, steps: _lru(capacity, steps),
        ((1, [["put", 1, 5], ["get", 1], ["put", 2, 6], ["get", 1]]), (2, [["get", 3]])),
        lambda r: (r.randint(1, 3), [_step(r) for _ in range(r.randint(4, 14))]),
    ),
    Program(
        "min_window",
        3,
        "asserts",
        "returns the shortest block of the text s that holds every character of t at least as often"
        " as t does; the first such block, or '' if there is none.",
        ("s", "t"),
        """
        from collections import Counter
        def min_window(s, t):
            need, missing, left, best = Counter(t), len(t), 0, None
            for right, c in enumerate(s):
                missing -= need[c] > 0
                need[c] -= 1
                while missing == 0:
                    if best is None or right - left < best[1] - best[0]:
                        best = (left, right)
                    need[s[left]] += 1
                    missing += need[s[left]] > 0
                    left += 1
            return '' if best is None else s[best[0]:best[1] + 1]
        """,
        lambda s, t: next(
            (
                s[i : i + k]
                for k in range(len(t), len(s) + 1)
                for i in range(len(s) - k + 1)
                if all(s[i : i + k].count(c) >= t.count(c) for c in t)
            ),
            "",
        ),
        (("adobecodebanc", "abc"), ("a", "aa")),
        lambda r: (word(r, 14, "abcd"), word(r, 3, "abc")),
    ),
    Program(
        "parse_nested",
        3,
        "asserts",
        "parses a text like '[1,[2,[]],-3]' (nested lists of integers, without spaces) into Python"
        " lists, without using eval or a library.",
        ("text",),
        """
        def parse_nested(text):
            at = 0
            def value():
                nonlocal at
                if text[at] == '[':
                    at += 1
                    out = []
                    while text[at] != ']':
                        out.append(value())
                        if text[at] == ',':
                            at += 1
                    at += 1
                    return out
                start = at
                while at < len(text) and text[at] in '-0123456789':
                    at += 1
                return int(text[start:at])
            return value()
        """,
        lambda text: _nested(text),
        (("[1,[2,[]],-3]",), ("[]",)),
        lambda r: (_nested_text(r, 3),),
    ),
    Program(
        "sudoku_ok",
        3,
        "asserts",
        "tells whether a 4 x 4 grid of numbers from 0 to 4 (0 is an empty cell) breaks no rule of the"
        " small sudoku: no number from 1 to 4 twice in a row, a column or one of the four 2 x 2"
        " blocks.",
        ("grid",),
        """
        def sudoku_ok(grid):
            seen = set()
            for i in range(4):
                for j in range(4):
                    x = grid[i][j]
                    if x:
                        keys = {('r', i, x), ('c', j, x), ('b', i // 2, j // 2, x)}
                        if keys & seen:
                            return False
                        seen |= keys
            return True
        """,
        lambda grid: _sudoku(grid),
        (
            ([[1, 2, 3, 4], [3, 4, 1, 2], [2, 1, 4, 3], [4, 3, 2, 1]],),
            ([[1, 0, 0, 0], [0, 1, 0, 0], [0] * 4, [0] * 4],),
        ),
        lambda r: (_sudoku_grid(r),),
    ),
    Program(
        "text_compress",
        3,
        "asserts",
        "decodes a text in which k[part] stands for the part repeated k times (k is a positive"
        " integer, parts can be nested): '2[ab3[c]]d' becomes 'abcccabcccd'.",
        ("s",),
        """
        def text_compress(s):
            stack, text, count = [], '', 0
            for c in s:
                if c.isdigit():
                    count = 10 * count + int(c)
                elif c == '[':
                    stack.append((text, count))
                    text, count = '', 0
                elif c == ']':
                    before, times = stack.pop()
                    text = before + text * times
                else:
                    text += c
            return text
        """,
        lambda s: _expand(s),
        (("2[ab3[c]]d",), ("x",)),
        lambda r: (_repeated(r, 3),),
    ),
    Program(
        "stable_pairs",
        3,
        "asserts",
        "returns the stable matching of n students and n schools that is best for the students. Each"
        " row of students lists the schools in the order in which that student likes them, and schools"
        " likewise. The result lists each student's school.",
        ("students", "schools"),
        """
        def stable_pairs(students, schools):
            n = len(students)
            rank = [{s: i for i, s in enumerate(row)} for row in schools]
            tries, taken, free = [0] * n, {}, list(range(n))
            while free:
                s = free.pop()
                c = students[s][tries[s]]
                tries[s] += 1
                if c not in taken:
                    taken[c] = s
                elif rank[c][s] < rank[c][taken[c]]:
                    free.append(taken[c])
                    taken[c] = s
                else:
                    free.append(s)
            out = [None] * n
            for c, s in taken.items():
                out[s] = c
            return out
        """,
        lambda students, schools: _stable(students, schools),
        (([[0, 1], [0, 1]], [[1, 0], [0, 1]]), ([[0]], [[0]])),
        lambda r: _preferences(r),
    ),
    Program(
        "josephus_order",
        3,
        "asserts",
        "returns the order in which n people (0 to n - 1) leave a circle when, beginning the count"
        " with person 0, each k-th leaves (1 <= n <= 100, 1 <= k <= 1000).",
        ("n", "k"),
        """
        def josephus_order(n, k):
            people, at, out = list(range(n)), 0, []
            while people:
                at = (at + k - 1) % len(people)
                out.append(people.pop(at))
            return out
        """,
        lambda n, k: _josephus(n, k),
        ((5, 2), (1, 7)),
        lambda r: (r.randint(2, 12), r.randint(1, 15)),
    ),
)


def _graph(r: random.Random, most: int = 7) -> tuple[int, Edges]:
    n = r.randint(2, most)
    pairs = [(r.randint(1, n), r.randint(1, n)) for _ in range(r.randint(n - 1, 2 * n))]
    return n, [(u, v, r.randint(1, 20)) for u, v in pairs if u != v]


def _graph_lines(n: int, edges: Edges) -> str:
    return "\n".join([f"{n} {len(edges)}", *(f"{u} {v} {w}" for u, v, w in edges)])


def _shortest(n: int, edges: Edges) -> int:
    far = {1: 0}
    for _ in range(n):
        for u, v, w in edges + [(v, u, w) for u, v, w in edges]:
            if u in far:
                far[v] = min(far.get(v, 10**9), far[u] + w)
    return far.get(n, -1)


def _spanning(n: int, edges: Edges) -> int:
    def connected(chosen: tuple[tuple[int, int, int], ...]) -> bool:
        reached = {1}
        for _ in range(n):
            reached |= {b for u, v, _ in chosen for a, b in ((u, v), (v, u)) if a in reached}
        return len(reached) == n

    costs = [sum(e[2] for e in part) for part in itertools.combinations(edges, n - 1) if connected(part)]
    return min(costs, default=-1)


def _islands(grid: list[str]) -> tuple[int, int]:
    land = {(i, j) for i, row in enumerate(grid) for j, c in enumerate(row) if c == "#"}
    label = {cell: cell for cell in land}
    for _ in range(len(land)):
        for i, j in land:
            around = [(i, j), (i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)]
            label[i, j] = min(label[cell] for cell in around if cell in land)
    sizes = [list(label.values()).count(name) for name in set(label.values())]
    return len(sizes), max(sizes, default=0)


def _calculate(text: str) -> int:
    """By rewriting the innermost parentheses, then the first product or sum, until one number is left."""
    while "(" in text:
        end = text.index(")")
        start = text.rindex("(", 0, end)
        text = text[:start] + str(_calculate(text[start + 1 : end])) + text[end + 1 :]
    parts = text.split()
    for operators in ("*", "+-"):
        while any(p in operators for p in parts if len(p) == 1):
            at = next(i for i, p in enumerate(parts) if len(p) == 1 and p in operators)
            a, b = int(parts[at - 1]), int(parts[at + 1])
            value = {"*": a * b, "+": a + b, "-": a - b}[parts[at]]
            parts[at - 1 : at + 2] = [str(value)]
    return int(parts[0])


def _sum_text(r: random.Random, depth: int) -> str:
    if depth == 0:
        return str(r.randint(0, 20))
    left, right = _sum_text(r, depth - 1), _sum_text(r, r.randrange(depth))
    text = f"{left} {r.choice('+-*')} {right}"
    return f"({text})" if r.random() < 0.4 else text


def _edits(s: str, t: str) -> int:
    @cache
    def far(i: int, j: int) -> int:
        if i == len(s) or j == len(t):
            return len(s) - i + len(t) - j
        if s[i] == t[j]:
            return far(i + 1, j + 1)
        return 1 + min(far(i + 1, j), far(i, j + 1), far(i + 1, j + 1))

    return far(0, 0)


def _tasks(r: random.Random) -> tuple[int, list[list[int]]]:
    n = r.randint(2, 6)
    order = r.sample(range(n), n)
    pairs = [sorted(r.sample(range(n), 2)) for _ in range(r.randint(0, n))]
    if r.random() < 0.2:
        pairs.append([n - 1, 0])
    return n, [[order[a], order[b]] for a, b in pairs]


def _cuts(s: str, words: list[str]) -> int:
    return 1 if not s else sum(_cuts(s[len(w) :], words) for w in words if s.startswith(w))


def _power(a: list[list[int]], k: int, m: int) -> list[list[int]]:
    n = len(a)
    out = [[int(i == j) for j in range(n)] for i in range(n)]
    for _ in range(k):
        out = [[sum(row[t] * a[t][j] for t in range(n)) for j in range(n)] for row in out]
    return [[x % m for x in row] for row in out]


def _matrix_case(r: random.Random) -> tuple[list[list[int]], int, int]:
    n = r.randint(1, 3)
    return [[r.randint(-5, 5) for _ in range(n)] for _ in range(n)], r.randint(0, 12), r.randint(2, 1000)


def _lru(capacity: int, steps: list[list[Any]]) -> list[int]:
    """By checking all earlier steps before each one."""

    def kept(done: list[list[Any]]) -> dict[int, int]:
        items: list[tuple[int, int]] = []  # least recently used first
        for kind, key, *value in done:
            known = dict(items)
            if kind == "put" or key in known:
                items = [item for item in items if item[0] != key]
                items = items[1:] if kind == "put" and key not in known and len(items) == capacity else items
                items.append((key, value[0] if value else known[key]))
        return dict(items)

    return [kept(steps[:i]).get(step[1], -1) for i, step in enumerate(steps) if step[0] == "get"]


def _step(r: random.Random) -> list[Any]:
    return r.choice([["get", r.randint(1, 4)], ["put", r.randint(1, 4), r.randint(0, 99)]])


def _nested(text: str) -> object:
    """By splitting at the commas outside inner lists."""
    if not text.startswith("["):
        return int(text)
    parts, depth, current = [], 0, ""
    for c in text[1:-1]:
        depth += (c == "[") - (c == "]")
        if c == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += c
    return [_nested(part) for part in ([*parts, current] if current else [])]


def _nested_text(r: random.Random, depth: int) -> str:
    if depth == 0 or r.random() < 0.2:
        return str(r.randint(-20, 20))
    return "[" + ",".join(_nested_text(r, depth - 1) for _ in range(r.randint(0, 3))) + "]"


def _sudoku(grid: list[list[int]]) -> bool:
    rows = [list(row) for row in grid]
    columns = [list(column) for column in zip(*grid, strict=True)]
    blocks = [[grid[i + a][j + b] for a in (0, 1) for b in (0, 1)] for i in (0, 2) for j in (0, 2)]
    return all(group.count(x) <= 1 for group in rows + columns + blocks for x in (1, 2, 3, 4))


def _sudoku_grid(r: random.Random) -> list[list[int]]:
    names = r.sample([1, 2, 3, 4], 4)
    full = [[1, 2, 3, 4], [3, 4, 1, 2], [2, 1, 4, 3], [4, 3, 2, 1]]
    grid = [[names[x - 1] if r.random() < 0.7 else 0 for x in row] for row in full]
    if r.random() < 0.6:
        grid[r.randrange(4)][r.randrange(4)] = r.randint(1, 4)
    return grid


def _expand(s: str) -> str:
    """By expanding the innermost part first."""
    while "]" in s:
        end = s.index("]")
        start = s.rindex("[", 0, end)
        digits = start
        while digits > 0 and s[digits - 1].isdigit():
            digits -= 1
        s = s[:digits] + s[start + 1 : end] * int(s[digits:start]) + s[end + 1 :]
    return s


def _repeated(r: random.Random, depth: int) -> str:
    if depth == 0:
        return word(r, 3, "abc")
    return (
        word(r, 2, "xy")
        + f"{r.randint(1, 12 if depth == 1 else 3)}[{_repeated(r, depth - 1)}]"
        + word(r, 2, "z", least=0)
    )


def _stable(students: list[list[int]], schools: list[list[int]]) -> list[int]:
    n = len(students)

    def stable(match: tuple[int, ...]) -> bool:
        of = {c: s for s, c in enumerate(match)}
        return not any(
            students[s].index(c) < students[s].index(match[s])
            and schools[c].index(s) < schools[c].index(of[c])
            for s in range(n)
            for c in range(n)
        )

    every = [match for match in itertools.permutations(range(n)) if stable(match)]
    return list(min(every, key=lambda match: sum(students[s].index(c) for s, c in enumerate(match))))


def _preferences(r: random.Random) -> tuple[list[list[int]], list[list[int]]]:
    n = r.randint(2, 4)
    return [r.sample(range(n), n) for _ in range(n)], [r.sample(range(n), n) for _ in range(n)]


def _josephus(n: int, k: int) -> list[int]:
    circle, out = deque(range(n)), []
    while circle:
        circle.rotate(-(k - 1))
        out.append(circle.popleft())
    return out
