"""Level 1: one loop or one formula."""

from __future__ import annotations

import calendar
import itertools
import random

from programs.spec import Program, numbers, word

EASY = (
    Program(
        "digit_sum",
        1,
        "stdin",
        "Read an integer n (0 <= n < 10^12). Print the sum of its decimal digits.",
        ("n",),
        """
        n = int(input())
        total = 0
        while n:
            total += n % 10
            n //= 10
        print(total)
        """,
        lambda n: sum(int(c) for c in str(n)),
        ((409,), (0,)),
        lambda r: (r.randrange(10 ** r.randint(1, 12)),),
    ),
    Program(
        "even_count",
        1,
        "stdin",
        "Read n (1 <= n <= 50), then n integers on one line. Print how many of them are even.",
        ("a",),
        """
        input()
        print(sum(1 for x in map(int, input().split()) if x % 2 == 0))
        """,
        lambda a: len([x for x in a if str(x)[-1] in "02468"]),
        (([3, 4, -2],), ([7],)),
        lambda r: (numbers(r, 20, -50, 50),),
    ),
    Program(
        "reverse_words",
        1,
        "stdin",
        "Read a line of words, separated by single spaces. Print the words in reverse order.",
        ("line",),
        "print(*input().split()[::-1])",
        lambda line: _last_first(line.split(" ")),
        (("one two three",), ("a",)),
        lambda r: (" ".join(word(r, 5, "abcdxyz") for _ in range(r.randint(2, 7))),),
    ),
    Program(
        "triangle",
        1,
        "stdin",
        "Read an integer n (1 <= n <= 10). Print n lines; line i holds i stars and is aligned to the"
        " right in a column of width n.",
        ("n",),
        """
        n = int(input())
        for i in range(1, n + 1):
            print(' ' * (n - i) + '*' * i)
        """,
        lambda n: [("*" * i).rjust(n) for i in range(1, n + 1)],
        ((3,), (1,)),
        lambda r: (r.randint(2, 10),),
    ),
    Program(
        "max_gap",
        1,
        "stdin",
        "Read n (2 <= n <= 50), then n integers on one line. Print the largest absolute difference of"
        " two neighbours in the list.",
        ("a",),
        """
        n = int(input())
        a = list(map(int, input().split()))
        print(max(abs(a[i] - a[i + 1]) for i in range(n - 1)))
        """,
        lambda a: sorted(abs(x - y) for x, y in itertools.pairwise(a))[-1],
        (([1, 5, 2],), ([4, 4],)),
        lambda r: (numbers(r, 15, -40, 40, least=2),),
    ),
    Program(
        "clock_time",
        1,
        "stdin",
        "Read a number of seconds s (0 <= s < 86400). Print the time of day as HH:MM:SS.",
        ("s",),
        """
        s = int(input())
        print(f'{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}')
        """,
        lambda s: _count_time(s),
        ((3661,), (59,)),
        lambda r: (r.randrange(86400),),
    ),
    Program(
        "vowel_count",
        1,
        "stdin",
        "Read a line of small letters and spaces. Print how many of its letters are vowels (a, e, i, o, u).",
        ("line",),
        "print(sum(c in 'aeiou' for c in input()))",
        lambda line: sum(line.count(v) for v in ("a", "e", "i", "o", "u")),
        (("the quick fox",), ("rhythm",)),
        lambda r: (word(r, 30, "abcdeiou xyz", least=5).strip() or "x",),
    ),
    Program(
        "is_leap",
        1,
        "function_call",
        "returns whether a year of the Gregorian calendar (1 <= year <= 9999) is a leap year.",
        ("year",),
        """
        def is_leap(year):
            return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        """,
        lambda year: _is_leap(year),
        ((2024,), (1900,)),
        lambda r: (r.choice([r.randint(1, 9999), 100 * r.randint(1, 99), 4 * r.randint(1, 2000)]),),
    ),
    Program(
        "clamp_all",
        1,
        "function_call",
        "returns the list a with each number below low replaced by low and each above high by high.",
        ("a", "low", "high"),
        """
        def clamp_all(a, low, high):
            return [min(max(x, low), high) for x in a]
        """,
        lambda a, low, high: [low if x < low else high if x > high else x for x in a],
        (([1, 5, 9], 2, 6), ([], 0, 1)),
        lambda r: (numbers(r, 10, -20, 20, least=0), r.randint(-10, 0), r.randint(1, 10)),
    ),
    Program(
        "second_largest",
        1,
        "function_call",
        "returns the second largest of the different values in a, or None if there are not two"
        " different ones.",
        ("a",),
        """
        def second_largest(a):
            b = sorted(set(a))
            return b[-2] if len(b) > 1 else None
        """,
        lambda a: _second(a),
        (([3, 9, 9, 4],), ([5, 5],)),
        lambda r: (numbers(r, 8, 0, 6),),
    ),
    Program(
        "run_lengths",
        1,
        "function_call",
        "returns the runs of equal letters of a text as a list of [letter, length] pairs.",
        ("s",),
        """
        def run_lengths(s):
            runs = []
            for c in s:
                if runs and runs[-1][0] == c:
                    runs[-1][1] += 1
                else:
                    runs.append([c, 1])
            return runs
        """,
        lambda s: _runs(s),
        (("aabccc",), ("",)),
        lambda r: (word(r, 12, "ab"),),
    ),
    Program(
        "common_prefix",
        1,
        "function_call",
        "returns the longest common prefix of a list of one or more texts.",
        ("words",),
        """
        def common_prefix(words):
            n = 0
            while all(len(w) > n for w in words) and len({w[n] for w in words}) == 1:
                n += 1
            return words[0][:n]
        """,
        lambda words: next(
            words[0][:n]
            for n in range(len(words[0]), -1, -1)
            if all(w.startswith(words[0][:n]) for w in words)
        ),
        ((["flow", "flower", "flat"],), (["a", "b"],)),
        lambda r: (["ab" + word(r, 4, "ab") for _ in range(r.randint(1, 4))],),
    ),
    Program(
        "dot_product",
        1,
        "function_call",
        "returns the dot product of two lists of integers of the same length (0 for empty lists).",
        ("a", "b"),
        """
        def dot_product(a, b):
            return sum(x * y for x, y in zip(a, b))
        """,
        lambda a, b: sum(a[i] * b[i] for i in range(len(a))),
        (([1, 2, 3], [4, 5, 6]), ([], [])),
        lambda r: _pair_of_lists(r),
    ),
    Program(
        "collatz_steps",
        1,
        "function_call",
        "returns how many steps it takes from n (1 <= n <= 1000) to 1, when an even number is halved"
        " and an odd number is replaced by three times itself plus one.",
        ("n",),
        """
        def collatz_steps(n):
            steps = 0
            while n != 1:
                n = n // 2 if n % 2 == 0 else 3 * n + 1
                steps += 1
            return steps
        """,
        lambda n: _collatz(n),
        ((6,), (1,)),
        lambda r: (r.randint(2, 1000),),
    ),
    Program(
        "is_palindrome",
        1,
        "asserts",
        "returns whether a text reads the same backwards when everything but letters and digits is"
        " left out and capitals count as small letters.",
        ("s",),
        """
        def is_palindrome(s):
            t = [c.lower() for c in s if c.isalnum()]
            return t == t[::-1]
        """,
        lambda s: _palindrome(s),
        (("Never odd, or even!",), ("ab",)),
        lambda r: (_maybe_palindrome(r),),
    ),
    Program(
        "rotate",
        1,
        "asserts",
        "returns the list a rotated to the right by k places (k >= 0, possibly more than its length).",
        ("a", "k"),
        """
        def rotate(a, k):
            if not a:
                return []
            k %= len(a)
            return a[len(a) - k:] + a[:len(a) - k]
        """,
        lambda a, k: _rotate(a, k),
        (([1, 2, 3, 4], 1), ([], 3)),
        lambda r: (numbers(r, 7, 0, 9), r.randint(0, 20)),
    ),
    Program(
        "count_letters",
        1,
        "asserts",
        "returns a dictionary with the number of times that each character occurs in a text.",
        ("s",),
        """
        def count_letters(s):
            counts = {}
            for c in s:
                counts[c] = counts.get(c, 0) + 1
            return counts
        """,
        lambda s: {c: s.count(c) for c in s},
        (("hello",), ("",)),
        lambda r: (word(r, 12, "abc d"),),
    ),
    Program(
        "divisors",
        1,
        "asserts",
        "returns all positive divisors of n (1 <= n <= 1000), in increasing order.",
        ("n",),
        """
        def divisors(n):
            small = [d for d in range(1, int(n ** 0.5) + 1) if n % d == 0]
            return sorted(set(small + [n // d for d in small]))
        """,
        lambda n: [d for d in range(1, n + 1) if n % d == 0],
        ((12,), (1,)),
        lambda r: (r.randint(2, 1000),),
    ),
    Program(
        "flatten",
        1,
        "asserts",
        "returns the items of a list of lists as one list, in order.",
        ("rows",),
        """
        def flatten(rows):
            return [x for row in rows for x in row]
        """,
        lambda rows: list(itertools.chain(*rows)),
        (([[1, 2], [], [3]],), ([],)),
        lambda r: ([numbers(r, 3, 0, 9, least=0) for _ in range(r.randint(1, 5))],),
    ),
    Program(
        "caesar",
        1,
        "asserts",
        "shifts each small letter of a text by k places in the alphabet (after z comes a; k may be"
        " negative) and leaves every other character as it is.",
        ("s", "k"),
        """
        def caesar(s, k):
            return ''.join(chr((ord(c) - 97 + k) % 26 + 97) if 'a' <= c <= 'z' else c for c in s)
        """,
        lambda s, k: _caesar(s, k),
        (("xyz, abc!", 3), ("hello", -1)),
        lambda r: (word(r, 12, "abmyz ,A"), r.randint(-30, 30)),
    ),
    Program(
        "binary_ones",
        1,
        "asserts",
        "returns the number of ones in the binary form of n (0 <= n < 10^9).",
        ("n",),
        """
        def binary_ones(n):
            count = 0
            while n:
                n &= n - 1
                count += 1
            return count
        """,
        lambda n: bin(n).count("1"),
        ((13,), (0,)),
        lambda r: (r.randrange(10 ** r.randint(1, 9)),),
    ),
)


def _last_first(words: list[str]) -> str:
    return " ".join(reversed(words))


def _count_time(s: int) -> str:
    hours, rest = divmod(s, 3600)
    minutes, seconds = divmod(rest, 60)
    return ":".join(str(part).rjust(2, "0") for part in (hours, minutes, seconds))


def _is_leap(year: int) -> bool:
    return calendar.isleap(year)


def _second(a: list[int]) -> int | None:
    rest = [x for x in a if x != max(a)]
    return max(rest) if rest else None


def _runs(s: str) -> list[list[object]]:
    return [[letter, len(list(group))] for letter, group in itertools.groupby(s)]


def _pair_of_lists(r: random.Random) -> tuple[list[int], list[int]]:
    n = r.randint(1, 6)
    return [r.randint(-9, 9) for _ in range(n)], [r.randint(-9, 9) for _ in range(n)]


def _collatz(n: int) -> int:
    return 0 if n == 1 else 1 + _collatz(n // 2 if n % 2 == 0 else 3 * n + 1)


def _palindrome(s: str) -> bool:
    letters = [c for c in s.casefold() if c.isalpha() or c.isdigit()]
    return all(letters[i] == letters[-1 - i] for i in range(len(letters) // 2))


def _maybe_palindrome(r: random.Random) -> str:
    half = word(r, 5, "abC1 ,")
    return half + r.choice([half[::-1], half[::-1].upper(), half])


def _rotate(a: list[int], k: int) -> list[int]:
    a = list(a)
    for _ in range(k if a else 0):
        a.insert(0, a.pop())
    return a


def _caesar(s: str, k: int) -> str:
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    table = {c: alphabet[(i + k) % 26] for i, c in enumerate(alphabet)}
    return "".join(table.get(c, c) for c in s)
