"""`mars-env validate`: are code problems fit for training?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from mars_env.api import load_problems
from mars_env.cli.options import progress_bar
from mars_env.cli.screen import Screen, say
from mars_env.errors import ConfigError
from mars_env.grading.code.grader import CodeGrader
from mars_env.grading.code.validate import Validation, validate_problems
from mars_env.problems import ProblemSet
from mars_env.sync import run_sync


def validate(
    problems: Annotated[str, typer.Argument(help="A set of code problems, by name or file.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Number of problems, from the first.")] = None,
    mutants: Annotated[int, typer.Option(help="Wrong variants of each reference solution to try.")] = 6,
    backend: Annotated[str, typer.Option(help="Sandbox backend.")] = "auto",
) -> None:
    """Run every reference solution (must pass) and mutants of it (must fail); list what is not fit.

    The exit status is 1 if a problem is not fit.
    """
    chosen = load_problems(problems)
    chosen = chosen[: min(limit, len(chosen))] if limit is not None else chosen
    if chosen.endless:
        raise ConfigError(f"the set {problems!r} is endless: say how many problems, --limit N")
    grader = CodeGrader(backend=backend)
    with progress_bar() as bar:
        task = bar.add_task("validating", total=len(chosen))
        found = run_sync(_validated(chosen, grader, mutants, lambda done: bar.advance(task)))
    for validation in found:
        if not validation.fit:
            say(f"{validation.problem}: {validation.reason}")
    unfit = sum(not validation.fit for validation in found)
    Screen(stderr=True).print(f"{len(found) - unfit} of {len(found)} problems are fit for training")
    raise typer.Exit(1 if unfit else 0)


async def _validated(
    problems: ProblemSet, grader: CodeGrader, mutants: int, on_progress: Callable[[Validation], None]
) -> list[Validation]:
    try:
        return await validate_problems(problems, grader, n_mutants=mutants, on_progress=on_progress)
    finally:
        await grader.aclose()
