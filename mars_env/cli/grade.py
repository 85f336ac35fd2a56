"""`mars-env grade`: judge stored answers in bulk."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from mars_env.api import load_problems
from mars_env.cli.options import progress_bar
from mars_env.cli.screen import Screen
from mars_env.grading.bulk import grade_file


def grade(
    problems: Annotated[str, typer.Option(help="A problem set's name or file.")],
    completions: Annotated[Path, typer.Option(help='Rows {"problem_id", "completion"}.')],
    out: Annotated[Path, typer.Option(help="Verdicts, in the order of the completions.")],
) -> None:
    """Judge stored answers on all cores: one verdict a row, in the order of the input."""
    known = {problem.id: problem for problem in load_problems(problems)}
    with progress_bar() as bar:
        task = bar.add_task("grading", total=None)
        verdicts = grade_file(
            known,
            completions,
            out,
            on_progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    counts = Counter(verdicts)
    Screen(stderr=True).print(", ".join(f"{counts[v]} {v}" for v in sorted(counts)) + f", written to {out}")
