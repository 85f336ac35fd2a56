"""The endless set `nibbles`: find the program from inputs and outputs on 4-bit integers.

A function ``f(x, r)`` returns u if r is 0 and v if r is 1. Each is computed by a hidden chain of operations
from two families, arithmetic and bits; six outputs of each are shown (public tests) or fewer. Half of a
program can be right, a test tells which half, and the other can be repaired separately.
`nibble_pair_program` writes a program from the names of its operations; `nibble_table` gives outputs
without running anything.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from mars_env.errors import ConfigError
from mars_env.problems.code import code_problem_from_row
from mars_env.problems.generated import LICENCE, Draft, generated_set
from mars_env.problems.problem_set import ProblemSet

PUBLIC = (0, 3, 6, 9, 12, 15)
"""Inputs whose outputs are shown, unless fewer are asked for."""

_LEAST_SPREAD = 4
_MIX = 0.85
"""The share of operations from a chain's own family."""

_ARITHMETIC: Mapping[str, str] = {
    "inc": "(x + 1) % 16",
    "add5": "(x + 5) % 16",
    "add11": "(x + 11) % 16",
    "times3": "x * 3 % 16",
    "times5": "x * 5 % 16",
    "square": "x * x % 16",
    "fold": "abs(x - 8)",
    "cap": "min(x, 11)",
    "floor": "max(x, 4)",
    "half": "x // 2",
    "third": "x // 3",
    "double": "min(2 * x, 15)",
}
_BITS: Mapping[str, str] = {
    "xor5": "x ^ 5",
    "xor10": "x ^ 10",
    "rotate": "(x << 1 | x >> 3) & 15",
    "swap": "(x << 2 | x >> 2) & 15",
    "reverse": "(x & 1) << 3 | (x & 2) << 1 | (x & 4) >> 1 | x >> 3",
    "gray": "x ^ x >> 1",
    "pairs": "(x & 5) << 1 | x >> 1 & 5",
    "and13": "x & 13",
    "or2": "x | 2",
    "smear": "x | x >> 2",
    "keep": "x & (x >> 1 | 8)",
    "carry": "(x ^ (x & x << 1)) & 15",
}
NIBBLE_OPERATIONS: Mapping[str, str] = MappingProxyType({**_ARITHMETIC, **_BITS})
"""Each operation's name and its expression in x; the first twelve are arithmetic, the others bits."""

_TABLES: Mapping[str, tuple[int, ...]] = {
    name: tuple(eval(expression, {"x": x}) for x in range(16))  # noqa: S307 (those above)
    for name, expression in NIBBLE_OPERATIONS.items()
}


def nibble_pair_program(u: Sequence[str], v: Sequence[str]) -> str:
    r"""The Python function of two chains of operations; raises ConfigError for an unknown operation.

    Example:
        >>> nibble_pair_program(["inc"], ["xor5"])
        'def f(x, r):\n    u = v = x\n    u = (u + 1) % 16\n    v = v ^ 5\n    return (u, v)[r]\n'
    """
    lines = "".join(f"    {nibble_line(r, name)}\n" for r, names in (("u", u), ("v", v)) for name in names)
    return f"def f(x, r):\n    u = v = x\n{lines}    return (u, v)[r]\n"


def nibble_line(register: str, name: str) -> str:
    """The statement that applies an operation to a register: ``u = min(u, 11)``."""
    expression = re.sub(r"\bx\b", register, NIBBLE_OPERATIONS[_known(name)])
    return f"{register} = {expression}"


def nibble_table(names: Sequence[str]) -> tuple[int, ...]:
    """Outputs of the chain of operations on 0 to 15.

    Example:
        >>> nibble_table(["inc", "xor5"])[:4]
        (4, 7, 6, 1)
    """
    values = tuple(range(16))
    for name in names:
        values = tuple(_TABLES[_known(name)][x] for x in values)
    return values


def _known(name: str) -> str:
    if name not in NIBBLE_OPERATIONS:
        raise ConfigError(f"nibbles has no operation {name!r}")
    return name


@dataclass(frozen=True, slots=True)
class Nibbles:
    """Makes problems of chains of `least` to `most` operations (see `nibbles_problems`)."""

    least: int
    most: int
    mix: float
    shown: int = len(PUBLIC)

    def __call__(self, rng: random.Random) -> Iterator[Draft | None]:
        """Draw one problem; what it shows decides its split."""
        while True:
            chains = [self.chain(rng, arithmetic=True), self.chain(rng, arithmetic=False)]
            tables = [nibble_table(names) for names in chains]
            yield _draft(chains, tables, shown_inputs(self.shown)) if all(map(is_varied, tables)) else None

    def chain(self, rng: random.Random, arithmetic: bool) -> list[str]:
        """Draw one register's operations, most of them from one family."""
        families = (list(_ARITHMETIC), list(_BITS)) if arithmetic else (list(_BITS), list(_ARITHMETIC))
        return [
            rng.choice(families[0] if rng.random() < self.mix else families[1])
            for _ in range(rng.randint(self.least, self.most))
        ]


def shown_inputs(count: int) -> tuple[int, ...]:
    """The inputs whose outputs are shown, evenly spaced: all six of `PUBLIC`, or 1, 2 or 3 of them.

    Example:
        >>> shown_inputs(6), shown_inputs(3)
        ((0, 3, 6, 9, 12, 15), (3, 9, 15))
    """
    if count not in (1, 2, 3, 6):
        raise ConfigError(f"nibbles shows 1, 2, 3 or 6 outputs of a function, not {count!r}")
    step = len(PUBLIC) // count
    return PUBLIC[step - 1 :: step]


def nibble_examples(tables: Sequence[Sequence[int]], public: Sequence[int] = PUBLIC) -> str:
    """The part of a function that a statement shows: its outputs on the public inputs, by register.

    Example:
        >>> nibble_examples([nibble_table([]), nibble_table(["xor5"])], public=[3, 9])
        'f(3, 0) = 3, f(9, 0) = 9, f(3, 1) = 6, f(9, 1) = 12'
    """
    return ", ".join(f"f({x}, {r}) = {tables[r][x]}" for x, r in _calls(public))


def is_varied(table: Sequence[int]) -> bool:
    """Whether a function is neither the identity nor close to a constant."""
    return max(table) - min(table) >= _LEAST_SPREAD and tuple(table) != tuple(range(16))


def _calls(inputs: Sequence[int]) -> list[tuple[int, int]]:
    """Arguments of the tests: an input and a register; first those of the first register."""
    return [(x, r) for r in (0, 1) for x in inputs]


def _draft(chains: list[list[str]], tables: Sequence[Sequence[int]], public: Sequence[int]) -> Draft:
    hidden = [x for x in range(16) if x not in public]
    calls = _calls(public) + _calls(hidden)
    shown = nibble_examples(tables, public)
    row = {
        "prompt": (
            "Write a Python function f(x, r) from a 4-bit integer x (0 to 15) and r = 0 or 1 to a 4-bit"
            f" integer, for each r a short chain of arithmetic or bit operations, with\n{shown}"
        ),
        "mode": "function_call",
        "fn_name": "f",
        "inputs": [list(call) for call in calls],
        "outputs": [tables[r][x] for x, r in calls],
        "public_tests": 2 * len(public),
        "solution": nibble_pair_program(*chains),
        "level": sum(map(len, chains)),
        "family": "both",
    }
    problem = code_problem_from_row(row, default_id="", source="nibbles", licence=LICENCE)
    return Draft(problem.statement, problem.reference, problem.metadata, problem.kind, key=shown)


def nibbles_problems(
    *,
    seed: int = 0,
    split: str | None = None,
    level: tuple[int, int] = (1, 4),
    shown: int = len(PUBLIC),
) -> ProblemSet:
    """The endless set of hidden programs on 4-bit integers.

    Args:
        seed: The set's seed.
        split: ``"train"`` (the default) or ``"test"``; no shown outputs are in both.
        level: The smallest and the largest length of a hidden chain. A problem's own level counts the
            operations of both registers.
        shown: How many outputs of each register are shown (public tests): 6, 3, 2 or 1. The fewer, the more
            programs fit them, and only the hidden tests tell these apart.

    Example:
        >>> problem = nibbles_problems(seed=0)[0]
        >>> problem.id, problem.metadata["public_tests"], len(problem.reference["tests"])
        ('nibble-pairs/train/0/0', 12, 32)
    """
    least, most = level
    label = "nibble-pairs" if level == (1, 4) else f"nibble-pairs-{least}to{most}-{_MIX:g}"
    if len(shown_inputs(shown)) < len(PUBLIC):
        label += f"-shown{shown}"
    make = Nibbles(least, most, _MIX, shown)
    return generated_set("nibbles", make, seed=seed, split=split, label=label, reference_field="tests")
