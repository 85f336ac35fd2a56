"""`mars-env envs` and `mars-env problems`: what there is, and what is in it."""

import json
from typing import Annotated

import typer
from rich.table import Table

from mars_env.api import as_problem_set, load_problems
from mars_env.cli.options import Count, loaded
from mars_env.cli.screen import Screen, say_json
from mars_env.envs.registry import find_game, game_names
from mars_env.problems.registry import describe_problem_set, list_problem_sets
from mars_env.problems.written import written_rows
from mars_env.rollout.records import tagged
from mars_env.text import counted, first_line


def envs() -> None:
    """List the games and the problem sets.

    An environment's id is a set and a game: aime25-solve-verify-correct plays MarsRL's game on AIME 2025.
    """
    games, sets = Table("game", "what is played"), Table("set", "its problems")
    for name in game_names():
        games.add_row(name, first_line(find_game(name).__doc__))
    for name in list_problem_sets():
        sets.add_row(name, describe_problem_set(name))
    Screen().print(games, sets, "An id is a set and a game, for example aime25-solve-verify-correct.")


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
    problem_set = as_problem_set(named) if named is not None else load_problems(name, seed=seed, split=split)
    if jsonl:
        for row in written_rows(problem_set[:limit]):
            say_json(json.dumps(tagged(row), allow_nan=False))
        return
    size = "endless" if problem_set.endless else counted(len(problem_set), "problem")
    kind = "generated" if problem_set.generated else "collected"
    table = Table(
        "id", "problem", title=f"{problem_set.name}: {size}, {kind}, {problem_set.licence}", show_lines=True
    )
    for problem in problem_set[:limit]:
        table.add_row(problem.id, problem.statement)
    Screen().print(table)
