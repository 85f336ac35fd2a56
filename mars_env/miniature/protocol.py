r"""The miniature's language: a token stream for the model, texts for everything else.

Its numbers have their last digit first, since addition starts there; `flip` converts in both directions. A
solution, and a report on it that finds its second step wrong:

    a: = 882                      Check:
    b: - 27 = 854                 a: = 882 | 882 ok
    c: - 65 = 789                 b: - 27 = 855 | 854 no
    \boxed{789}                   go on from a:
                                  Correctness: Wrong
"""

import re
from dataclasses import dataclass
from typing import Final

from mars_env.errors import ConfigError

MODULUS: Final = 1000
MAX_TERMS: Final = 6
LETTERS: Final = "abcdefg"
STEPS: Final = 3
"""Steps that fit into one completion beside its answer: the limit of a single Solver."""

PAD, END = "<|pad|>", "<|end|>"
SOLVE, VERIFY, CORRECT = "<|solve|>", "<|verify|>", "<|correct|>"
SPECIAL: Final = (PAD, END, SOLVE, VERIFY, CORRECT)
EQUALS, PLUS, MINUS, NEWLINE, BOX, CLOSE = " = ", " + ", " - ", "\n", "\\boxed{", "}"
CLAIM, OK, NO = " | ", " ok\n", " no\n"
CHECK = "Check:\n"
FROM = "go on from "
RIGHT, WRONG = "\nCorrectness: Correct", "\nCorrectness: Wrong"
PIECES: Final = (
    *"0123456789",
    *(f"{letter}:" for letter in LETTERS),
    *(EQUALS, PLUS, MINUS, NEWLINE, BOX, CLOSE, CLAIM, OK, NO, CHECK, FROM, RIGHT, WRONG),
)
VOCABULARY: Final = SPECIAL + PIECES
"""All tokens, in the order of their ids."""

SOLUTION_TOKENS: Final = 6 + 9 * STEPS + 6
"""Limit of one solution: the start, three steps, the box and the end token."""
REPORT_TOKENS: Final = 1 + 10 + 13 * STEPS + 4
"""Limit of one report: its heading, the start, three steps, the place, the verdict and the end token."""

PATTERN: Final = "|".join(re.escape(p) for p in sorted(PIECES, key=lambda p: (-len(p), p)))
"""Finds the pieces in a text, the longest first."""
_PIECE: Final = re.compile(PATTERN)
_DIGITS: Final = re.compile("[0-9]+")
_START: Final = re.compile(r"[Ss]tart with a = ([0-9]{1,3})\b")
_TERM: Final = re.compile(r"\b([a-z]) = ([a-z]) ([+-]) ([0-9]{1,2})\b")


@dataclass(frozen=True, slots=True)
class Chain:
    """The arithmetic of a statement: a start from 0 to 999, and one to six terms, each a sign and a size."""

    start: int
    terms: tuple[tuple[str, int], ...]

    @property
    def values(self) -> tuple[int, ...]:
        """The value at every letter, beginning with the start."""
        values = [self.start]
        for sign, size in self.terms:
            values.append(step(values[-1], sign, size))
        return tuple(values)


def step(value: int, sign: str, size: int) -> int:
    """A value plus or minus one term, modulo 1000."""
    return (value + size if sign == "+" else value - size) % MODULUS


def read_statement(statement: str) -> Chain:
    """The chain in a statement of the set ``arithmetic``; a `ConfigError` for any other.

    Example:
        >>> read_statement("Work modulo 1000. Start with a = 882. Then b = a - 27, c = b + 5. What is c?")
        Chain(start=882, terms=(('-', 27), ('+', 5)))
    """
    start = _START.search(statement)
    terms = _TERM.findall(statement)
    expected = list(zip(LETTERS[1:], LETTERS, strict=False))[: len(terms)]
    if start is None or not terms or [(new, old) for new, old, _, _ in terms] != expected:
        raise ConfigError(
            f"the miniature reads problems='arithmetic' of 1 to {MAX_TERMS} terms, not {statement[:80]!r}"
        )
    return Chain(int(start[1]), tuple((sign, int(size)) for _, _, sign, size in terms))


def flip(text: str) -> str:
    """Reverse every run of digits: from a text to a stream, and from a stream to a text.

    Example:
        >>> flip("b: - 27 = 855"), flip(flip("a: = 0120"))
        ('b: - 72 = 558', 'a: = 0120')
    """
    return _DIGITS.sub(lambda run: run[0][::-1], text)


def pieces(text: str, limit: int | None = None) -> list[str]:
    """The pieces of any string, in the order of the stream, at most `limit`; other characters are left out.

    Example:
        >>> pieces("b: - 27 = ?? 855")
        ['b:', ' - ', '7', '2', ' = ', '5', '5', '8']
    """
    return _PIECE.findall(flip(text))[:limit]


def solver_prompt(statement: str) -> str:
    """The stream that asks for a solution."""
    return chain_prompt(read_statement(statement))


def chain_prompt(chain: Chain) -> str:
    """The stream that asks for the solution of a chain."""
    terms = (
        f"{letter}:{_SIGN[sign]}{size:02d}"
        for letter, (sign, size) in zip(LETTERS[1:], chain.terms, strict=False)
    )
    return flip(f"a:{chain.start:03d}" + "".join(terms)) + SOLVE


def verifier_prompt(statement: str, solution: str) -> str:
    """The stream that asks for a report on a solution, which may be any string."""
    return solver_prompt(statement) + "".join(pieces(solution, SOLUTION_TOKENS)) + VERIFY


def corrector_prompt(statement: str, solution: str, report: str) -> str:
    """The stream that asks for another solution, given any two strings as a solution and a report on it."""
    return verifier_prompt(statement, solution) + "".join(pieces(report, REPORT_TOKENS)) + CORRECT


_SIGN: Final = {"+": PLUS, "-": MINUS}
