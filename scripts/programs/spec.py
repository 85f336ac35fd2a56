"""The form in which an embedded program problem is written, and how its tests are made."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent
from typing import Any, Literal

from mars_env.problems.code import code_problem_from_row
from mars_env.seeds import derive_seed
from mars_env.types import Problem

TESTS = 10  # of a problem: its two examples, which are public and in the statement, and drawn ones
LICENCE = "Apache-2.0"

Arguments = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """One problem.

    Attributes:
        name: Its id and, if it asks for a function, the function's name.
        level: 1 to 3.
        form: How it is stated and tested.
        task: What to compute, in a sentence or two; for functions it follows "Write a function ... that".
        parameters: Names of the arguments.
        solution: The reference solution; for ``"stdin"`` a whole program.
        expected: The answer by brute force: a different method than the solution, and too simple to be wrong.
        examples: Two cases, shown in the statement.
        draw: Draws the arguments of another case.
        lines: Writes a case to standard input; by default each argument is on a separate line, and a list
            is its length and then its items.
    """

    name: str
    level: int
    form: Literal["stdin", "function_call", "asserts"]
    task: str
    parameters: tuple[str, ...]
    solution: str
    expected: Callable[..., Any]
    examples: tuple[Arguments, Arguments]
    draw: Callable[[random.Random], Arguments]
    lines: Callable[..., str] | None = None


def problem_of(program: Program) -> Problem:
    """Make the problem, with tests made by brute force; it is the same in every process.

    Example:
        >>> twice = Program("twice", 1, "function_call", "returns twice x.", ("x",),
        ...                 "def twice(x): return 2 * x", lambda x: x + x, ((1,), (5,)),
        ...                 lambda rng: (rng.randrange(100),))
        >>> problem_of(twice).reference["tests"][1]["accept"]
        [10]
    """
    cases = _cases(program)
    answers = [program.expected(*case) for case in cases]
    row: dict[str, Any] = {
        "id": f"programs/{program.name}",
        "public_tests": len(program.examples),
        "solution": dedent(program.solution).strip() + "\n",
        "level": program.level,
    }
    if program.form == "stdin":
        texts = [(_written(program, case), _printed(a)) for case, a in zip(cases, answers, strict=True)]
        public = texts[: row["public_tests"]]
        shown = "".join(f"\n\nInput:\n{given}\nOutput:\n{answer}" for given, answer in public)
        row |= {"mode": "stdin", "tests": [{"input": f"{g}\n", "output": f"{a}\n"} for g, a in texts]}
        return _problem(row, program.task + shown)
    call = f"{program.name}({', '.join(program.parameters)})"
    asserts = [
        f"assert {program.name}({', '.join(map(repr, case))}) == {answer!r}"
        for case, answer in zip(cases, answers, strict=True)
    ]
    examples = [text.removeprefix("assert ") for text in asserts[: row["public_tests"]]]
    statement = f"Write a function `{call}` that {program.task}\n\nExamples:\n" + "\n".join(examples)
    if program.form == "asserts":
        row |= {"entry_point": program.name, "tests": asserts}
    else:
        inputs = [list(case) for case in cases]
        row |= {"mode": "function_call", "fn_name": program.name, "inputs": inputs, "outputs": answers}
    return _problem(row, statement)


def _problem(row: dict[str, Any], statement: str) -> Problem:
    return code_problem_from_row({**row, "prompt": statement}, source="programs", licence=LICENCE)


def _cases(program: Program) -> list[Arguments]:
    rng = random.Random(derive_seed("programs", program.name))
    cases = list(program.examples)
    for _ in range(200):
        if len(cases) == TESTS:
            break
        case = program.draw(rng)
        if case not in cases:
            cases.append(case)
    return cases


def _written(program: Program, case: Arguments) -> str:
    if program.lines is not None:
        return program.lines(*case)
    return "\n".join(_line(argument) for argument in case)


def _line(argument: Any) -> str:
    if isinstance(argument, list):
        return f"{len(argument)}\n{' '.join(map(str, argument))}"
    return str(argument)


def _printed(answer: Any) -> str:
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    if isinstance(answer, (list, tuple)):
        rows = isinstance(answer[0], (list, tuple, str)) if answer else False
        return "\n".join(map(_printed, answer)) if rows else " ".join(map(str, answer))
    return str(answer)


def numbers(rng: random.Random, most: int, low: int, high: int, least: int = 1) -> list[int]:
    """A list of `least` to `most` integers from `low` to `high`.

    Example:
        >>> len(numbers(random.Random(0), 5, 0, 9, least=5))
        5
    """
    return [rng.randint(low, high) for _ in range(rng.randint(least, most))]


def word(rng: random.Random, most: int, letters: str = "abc", least: int = 1) -> str:
    """A text of `least` to `most` letters.

    Example:
        >>> word(random.Random(0), 3, "a", least=3)
        'aaa'
    """
    return "".join(rng.choice(letters) for _ in range(rng.randint(least, most)))
