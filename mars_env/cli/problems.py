"""`mars-env envs` and `mars-env problems`: what there is, and what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from mars_env.api import load_problems
from mars_env.cli.options import print_json_line
from mars_env.cli.screen import Screen, say
from mars_env.envs import list_envs
from mars_env.rollout.records import problem_to_row


def envs() -> None:
    """List the environment ids."""
    for env_id in list_envs():
        say(env_id)


def problems(
    name: Annotated[str, typer.Argument(help="A problem set's name or file.")],
    limit: Annotated[int, typer.Option(help="How many to show.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of a generated set.")] = 0,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Rows with references, one a line.")] = False,
) -> None:
    """Show the first problems of a set; with --jsonl as rows that `grade` and `make` take."""
    found = load_problems(name, seed=seed) if not Path(name).exists() else load_problems(Path(name))
    shown = found[: min(limit, len(found))]
    if jsonl:
        for problem in shown:
            row = problem_to_row(problem)
            answer = {"answer": row["reference"]} if problem.kind != "open" else problem.metadata
            print_json_line({"id": row["id"], "problem": row["statement"], **answer})
        return
    size = "endless" if found.endless else f"{len(found)} problems"
    kind = "generated" if found.generated else "collected"
    table = Table("id", "problem", title=f"{found.name}: {size}, {kind}, {found.licence}", show_lines=True)
    for problem in shown:
        table.add_row(problem.id, problem.statement)
    Screen().print(table)
