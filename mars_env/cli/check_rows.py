"""`mars-env check-rows`: is a file of samples what a trainer needs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from mars_env.cli.screen import Screen, say
from mars_env.cli.streams import read_from
from mars_env.errors import ConfigError, explained
from mars_env.text import counted


def check_rows(
    file: Annotated[Path, typer.Argument()],
    advantage: Annotated[
        Literal["group_normalised", "mean_centred", "leave_one_out", "any"], typer.Option(metavar="NAME")
    ] = "group_normalised",
) -> None:
    """Check rows to train on, of this or another library.

    Ids, masks, versions, log-probabilities, groups and advantages are checked. Each problem is a line with
    row and field, and makes the exit status 1. docs/other-trainers.md has the form of rows.

    Args:
        file: Rows of JSON; - is standard input.
        advantage: How advantages follow from a group's rewards: group_normalised, mean_centred,
            leave_one_out; any: not checked.
    """
    from mars_env.trainers.row_checks import check_rows as problems_of

    count = 0
    cannot = explained(ConfigError, f"{file} cannot be read", OSError)
    with cannot, read_from(file) as path, path.open("rb") as lines:
        for problem in problems_of(lines, advantage):
            count += 1
            place = f"row {problem.row}" + (f", {problem.field}" if problem.field else "")
            say(f"{place}: {problem.message}")
    Screen(stderr=True).print(counted(count, "problem") if count else "all rows are right")
    raise typer.Exit(1 if count else 0)
