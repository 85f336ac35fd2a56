"""`mars-env compare` and `mars-env view`: reading stored runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mars_env import api, evaluation
from mars_env.cli.screen import Screen, say
from mars_env.rollout import read_run


def compare(
    run_a: Annotated[Path, typer.Argument(help="Directory of a run.")],
    run_b: Annotated[Path, typer.Argument(help="Directory of another run of the same problems.")],
    json_output: Annotated[bool, typer.Option("--json", help="The comparison as JSON.")] = False,
) -> None:
    """Paired differences between two runs, B minus A, with 95% intervals."""
    found = api.compare(run_a, run_b)
    if json_output:
        say(found.json_text())
    else:
        Screen().print(found)


def view(
    run: Annotated[Path, typer.Argument(help="Directory of a run.")],
    out: Annotated[Path | None, typer.Option(help="Where to write the page.")] = None,
) -> None:
    """Write a run as one HTML page that needs no network."""
    page = out or run / "report.html"
    evaluation.write_page(page, read_run(run).trees, title=run.name)
    say(f"wrote {page}")
