"""Checks that code problems are fit for training: reference solutions pass, and wrong programs fail."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from mars_env.checks import require_integer
from mars_env.errors import ConfigError
from mars_env.grading.code.grader import CodeGrader
from mars_env.grading.code.mutants import emptied, variants_of
from mars_env.text import brief
from mars_env.types import Grader, Problem, Verdict


@dataclass(frozen=True, slots=True)
class Validation:
    """Whether the problem with this id is fit for training, and if not, the reason.

    Attributes:
        reference: The verdict on its first reference solution; None if it has none.
        caught: How many mutants of that solution were WRONG.
        mutants: How many mutants were judged; one whose grade is UNKNOWN does not count.
    """

    problem: str
    fit: bool
    reason: str = ""
    reference: Verdict | None = None
    caught: int = 0
    mutants: int = 0


async def validate_problem(problem: Problem, grader: Grader, *, n_mutants: int = 6) -> Validation:
    r"""Grade a problem's reference solutions, of which one must pass, and wrong programs.

    A program that does nothing must fail, and half of at most `n_mutants` mutants of a solution, the same in
    every call.

    Example:
        >>> from mars_env.problems.code import code_problem_from_row
        >>> row = {"id": "twice", "prompt": "Return twice x.", "entry_point": "twice",
        ...        "tests": ["assert twice(5) == 10"], "solution": "def twice(x):\n    return 2 * x"}
        >>> grader = CodeGrader()
        >>> asyncio.run(validate_problem(code_problem_from_row(row), grader)).fit
        True
        >>> asyncio.run(grader.aclose())
    """
    if problem.kind != "code" or not isinstance(problem.reference, Mapping):
        raise ConfigError(f"{brief(problem.id)} is a problem of {problem.kind}: give a set of programs")
    solutions = problem.reference.get("solutions") or []
    if not solutions:
        return Validation(problem.id, False, "there is no reference solution to try")
    grades = await asyncio.gather(*(grader.grade(problem, fenced(text)) for text in solutions))
    right = next((i for i, grade in enumerate(grades) if grade.verdict is Verdict.CORRECT), None)
    if right is None:
        first = grades[0]
        why = f"the reference solution is {first.verdict.value}: {first.reason}"
        return Validation(problem.id, False, why, first.verdict)
    wrong = [emptied(solutions[right]), *variants_of(problem.id, solutions[right], n_mutants)]
    idle, *tried = await asyncio.gather(*(grader.grade(problem, fenced(text)) for text in wrong))
    if idle.verdict is Verdict.CORRECT:
        return Validation(problem.id, False, "a program that does nothing passes the tests", Verdict.CORRECT)
    judged = [grade for grade in tried if grade.verdict is not Verdict.UNKNOWN]
    if tried and not judged:
        return Validation(problem.id, False, f"no mutant could be judged: {tried[0].reason}", Verdict.CORRECT)
    caught = sum(grade.verdict is Verdict.WRONG for grade in judged)
    fit = 2 * caught >= len(judged)
    few = f"{caught} of {len(judged)} mutants failed: the tests do not tell wrong programs from right ones"
    return Validation(problem.id, fit, "" if fit else few, Verdict.CORRECT, caught, len(judged))


def fenced(program: str) -> str:
    """A program as a completion, in a fence longer than any in it."""
    fence = "```"
    while fence in program:
        fence += "`"
    return f"{fence}python\n{program.rstrip()}\n{fence}"


async def validate_problems(
    problems: Iterable[Problem],
    grader: Grader | None = None,
    *,
    n_mutants: int = 6,
    concurrency: int = 16,
    on_progress: Callable[[Validation], None] | None = None,
) -> list[Validation]:
    """Validate many problems, `concurrency` at a time, and keep their order; see `validate_problem`.

    The grader is by default a new `CodeGrader`; `on_progress` is called with each validation when it is done.
    A `ConfigError` if a problem is not one of code.
    """
    concurrency = require_integer(concurrency, "concurrency")
    gate = asyncio.Semaphore(concurrency)

    async def one(grader: Grader, problem: Problem) -> Validation:
        async with gate:
            validation = await validate_problem(problem, grader, n_mutants=n_mutants)
            if on_progress is not None:
                on_progress(validation)
            return validation

    if grader is not None:
        return list(await asyncio.gather(*(one(grader, problem) for problem in problems)))
    async with aclosing(CodeGrader()) as new_grader:
        return list(await asyncio.gather(*(one(new_grader, problem) for problem in problems)))
