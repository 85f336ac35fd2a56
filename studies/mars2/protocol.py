"""The language of the miniature of MARS2: programs of two registers, one token for each statement.

    f(0, 0) = 7 ... f(15, 1) = 0 <|generate 0|>                           u = (u + 1) % 16 / v = v ^ 5 / end
    f(0, 0) = 7 ... <|old|> u = ... / v = ... / f(3, 1) fails <|refine 0|>   v = v | 2 / end

A refinement is an edit: its statements for a register replace that register's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mars_env.errors import ConfigError
from mars_env.grading.code.extract import extract_program
from mars_env.types import Observation
from studies.common.nibbles import NIBBLE_OPERATIONS, PUBLIC, nibble_line, nibble_pair_program

PAD, END = "<|pad|>", "<|end|>"
OLD = "<|old|>"
ROLES: Final = 2
"""Each agent has a mark of its own, so that one model can play several roles."""
GENERATE: Final = tuple(f"<|generate {i}|>" for i in range(ROLES))
REFINE: Final = tuple(f"<|refine {i}|>" for i in range(ROLES))
SPECIAL: Final = (PAD, END, OLD, *GENERATE, *REFINE)

REGISTERS: Final = ("u", "v")
OPERATIONS: Final = tuple(NIBBLE_OPERATIONS)
STATEMENTS: Final = {f"{nibble_line(r, name)}\n": (r, name) for r in REGISTERS for name in OPERATIONS}
"""Register and operation by statement."""
EXAMPLES: Final = tuple(f"f({x}, {r}) = {y}\n" for r in (0, 1) for x in PUBLIC for y in range(16))
FAILS: Final = tuple(f"f({x}, {r}) fails\n" for r in (0, 1) for x in PUBLIC)
PASSED, HIDDEN, NOTHING = "all passed\n", "hidden fails\n", "not told\n"
PIECES: Final = (*STATEMENTS, *EXAMPLES, *FAILS, PASSED, HIDDEN, NOTHING)
VOCABULARY: Final = SPECIAL + PIECES
"""All tokens, in the order of their ids."""
PATTERN: Final = "|".join(re.escape(p) for p in sorted(PIECES, key=lambda p: (-len(p), p)))
"""A regular expression that finds the pieces in a text, the longest first."""

LIMIT: Final = 10
"""Most tokens of one completion."""

_EXAMPLE: Final = re.compile(r"f\((\d{1,2}), ([01])\) = (\d{1,2})\b", re.ASCII)
_CALL: Final = re.compile(r"^Call: f\((\d{1,2}), ([01])\)$", re.MULTILINE | re.ASCII)
_HEAD: Final = ("def f(x, r):", "u = v = x")
_LAST: Final = "return (u, v)[r]"
_LONGEST: Final = 100


@dataclass(frozen=True, slots=True)
class Pair:
    """The operations of both registers, by name."""

    u: tuple[str, ...] = ()
    v: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """The Python function."""
        return nibble_pair_program(self.u, self.v)

    @property
    def lines(self) -> tuple[str, ...]:
        """The statements, one token each."""
        return tuple(
            f"{nibble_line(r, name)}\n" for r, names in (("u", self.u), ("v", self.v)) for name in names
        )


@lru_cache(maxsize=4096)
def read_program(text: str) -> Pair | None:
    """The operations of a program in this language; None for any other text. Nothing is run."""
    program, _ = extract_program(text, "f")
    lines = [line.strip() for line in (program or "").splitlines()]
    if len(lines) > _LONGEST or tuple(lines[:2]) != _HEAD or lines[-1] != _LAST:
        return None
    return _pair([f"{line}\n" for line in lines[2:-1]])


def _pair(lines: list[str]) -> Pair | None:
    if any(line not in STATEMENTS for line in lines):
        return None
    found = [STATEMENTS[line] for line in lines]
    return Pair(tuple(n for r, n in found if r == "u"), tuple(n for r, n in found if r == "v"))


def edited(old: Pair | None, text: str) -> Pair:
    """The program after an edit: the registers for which the completion has statements are replaced."""
    new = _pair([f"{line}\n" for line in text.splitlines() if f"{line}\n" in STATEMENTS]) or Pair()
    old = old or Pair()
    return Pair(new.u or old.u, new.v or old.v)


def prompt(observation: Observation, role: int = 0) -> str:
    """The stream that an agent reads for an observation."""
    if not 0 <= role < ROLES:
        raise ConfigError(f"the miniature of MARS2 has the roles 0 to {ROLES - 1}, not {role}")
    examples = "".join(f"f({x}, {r}) = {y}\n" for x, r, y in _EXAMPLE.findall(str(observation["problem"])))
    if not examples or any(f"{line}\n" not in _EXAMPLES for line in examples.splitlines()):
        raise ConfigError(
            "the miniature of MARS2 plays problems of the set nibbles, and this is another: "
            f"{str(observation['problem'])[:60]!r}"
        )
    if observation.get("mode") != "refine":
        return examples + GENERATE[role]
    old = read_program(str(observation["solution"])) or Pair()
    return f"{examples}{OLD}{''.join(old.lines[:LIMIT])}{_seen(str(observation['feedback']))}{REFINE[role]}"


_EXAMPLES: Final = frozenset(EXAMPLES)


def _seen(feedback: str) -> str:
    """The old program's test result as one token."""
    if not feedback:
        return NOTHING
    if feedback.startswith("All "):
        return PASSED
    call = _CALL.search(feedback)
    failed = f"f({call[1]}, {call[2]}) fails\n" if call else HIDDEN
    return failed if failed in FAILS else HIDDEN
