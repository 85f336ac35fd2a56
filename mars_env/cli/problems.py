"""`mars-env envs` and `mars-env problems`: what there is, and what is in it."""

import json
from typing import Annotated

import typer
from rich.table import Table

from mars_env.api import as_problem_set, load_problems
from mars_env.cli.options import Count, loaded
from mars_env.cli.screen import Screen, say, say_json
from mars_env.envs import list_envs
from mars_env.problems.written import written_rows
from mars_env.rollout.records import tagged
from mars_env.text import counted


def envs() -> None:
    """List the environment ids."""
    for env_id in list_envs():
        say(env_id)


def problems(
    name: str,
    limit: Count = 5,
    seed: int = 0,
    split: str | None = None,
    fields: str | None = None,
    jsonl: Annotated[bool, typer.Option("--jsonl")] = False,
) -> None:
    """Show the first problems of a set, or write them as a file.

    With --jsonl it is a file that `grade` and `make` take.

    Args:
        name: A problem set's name or file.
        limit: How many to show.
        seed: Seed of a generated set.
        jsonl: A problem file, with references.
    """
    named = loaded(name, fields, split) if fields is not None else None
    found = as_problem_set(named) if named is not None else load_problems(name, seed=seed, split=split)
    if jsonl:
        for row in written_rows(found[:limit]):
            say_json(json.dumps(tagged(row), allow_nan=False))
        return
    size = "endless" if found.endless else counted(len(found), "problem")
    kind = "generated" if found.generated else "collected"
    table = Table("id", "problem", title=f"{found.name}: {size}, {kind}, {found.licence}", show_lines=True)
    for problem in found[:limit]:
        table.add_row(problem.id, problem.statement)
    Screen().print(table)
