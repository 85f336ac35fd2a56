"""`mars-env grade` and `mars-env validate`: judge stored answers, and code problems themselves."""

import itertools
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

import typer

from mars_env.api import as_problem_set, load_problems
from mars_env.cli.options import Limit, Required, finite_set, loaded, progress_bar
from mars_env.cli.screen import Screen, say
from mars_env.cli.streams import STREAM, json_of, read_from, write_to
from mars_env.errors import ConfigError
from mars_env.grading.bulk import grade_file
from mars_env.grading.code.grader import CodeGrader
from mars_env.grading.code.validate import Validation, validate_problems
from mars_env.sync import run_sync
from mars_env.types import Grader

OWN = "own"


def grade(  # public edge: one parameter is one option of the command
    problems: Required,
    completions: Annotated[Path, typer.Option()],
    out: Annotated[Path, typer.Option()],
    fields: str | None = None,
    split: str | None = None,
    rubric: str | None = None,
    judge: str | None = None,
    repeats: int = 1,
) -> None:
    """Judge stored answers on all cores: one verdict a row.

    Args:
        problems: A problem set's name or file; - is standard input.
        completions: Rows {"problem_id", "completion"}; - is standard input.
        out: Verdicts, in the order of the completions; - is standard output.
        rubric: A JSON file of criteria for all problems, or "own" for the rubric of each problem.
        judge: The rubric's judge, e.g. http://host:8000/v1#model; not needed for checks alone.
        repeats: Judgements of each criterion, an odd number.
    """
    if rubric is None and (judge is not None or repeats != 1):
        raise ConfigError("--judge and --repeats are for a --rubric: give a JSON file of criteria, or 'own'")
    grader = None if rubric is None else _rubric_grader(rubric, judge, repeats)
    if problems == str(completions) == STREAM:
        raise ConfigError("standard input cannot be both problems and completions: name a file for one")
    if str(out) != STREAM and out.absolute() in (completions.absolute(), Path(problems).absolute()):
        raise ConfigError(f"the verdicts would replace {out}: choose another --out")
    listed = finite_set(as_problem_set(loaded(problems, fields, split) or problems))
    by_id = {problem.id: problem for problem in listed}
    with read_from(completions) as source, write_to(out) as target, progress_bar("grading") as on_progress:
        counts = Counter(grade_file(by_id, source, target, grader=grader, on_progress=on_progress))
    summary = ", ".join(f"{counts[v]} {v}" for v in sorted(counts)) or "no completions"
    Screen(stderr=True).print(f"{summary}, written to {out}")


def _rubric_grader(rubric: str, judge: str | None, repeats: int) -> Grader:
    from mars_env.agents.registry import make_model
    from mars_env.grading.rubrics import Rubric, RubricGrader

    criteria = None if rubric == OWN else Rubric.from_rows(json_of(Path(rubric), "the rubric"))
    model, sampling = (None, None) if judge is None else make_model(judge)
    options: dict[str, Any] = {} if sampling is None else {"sampling": sampling}
    return RubricGrader(model, criteria, repeats=repeats, **options)


def validate(problems: str, limit: Limit = None, mutants: int = 6, backend: str = "auto") -> None:
    """List the code problems of a set that are not fit for training.

    Every reference solution must pass, mutants of it and a program that does nothing must fail; else the exit
    status is 1.

    Args:
        problems: A set of code problems, by name or file.
        mutants: Wrong variants of each reference solution to try.
        backend: Sandbox backend.
    """
    chosen = load_problems(problems)[:limit]
    if chosen.endless:
        raise ConfigError(f"the set {problems!r} is endless: say how many problems, --limit N")
    numbers = itertools.count(1)

    async def validated() -> list[Validation]:
        async with aclosing(CodeGrader(backend=backend)) as grader:
            with progress_bar("validating") as on_progress:
                return await validate_problems(
                    chosen,
                    grader,
                    n_mutants=mutants,
                    on_progress=lambda _: on_progress(next(numbers), len(chosen)),
                )

    validations = run_sync(validated())
    for validation in validations:
        if not validation.fit:
            say(f"{validation.problem}: {validation.reason}")
    rejected = sum(not validation.fit for validation in validations)
    fit = len(validations) - rejected
    Screen(stderr=True).print(f"{fit} of {len(validations)} problems are fit for training")
    raise typer.Exit(1 if rejected else 0)
