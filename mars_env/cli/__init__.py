"""The command line: `mars-env --help`."""

from __future__ import annotations

import signal
import sys

import typer
from rich.console import Console

from mars_env.cli import doctor, evaluate, export, grade, problems, runs, train, validate
from mars_env.errors import MarsError

app = typer.Typer(
    help="Multi-agent environments for mathematics and code reasoning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("envs")(problems.envs)
app.command("problems")(problems.problems)
app.command("evaluate")(evaluate.evaluate)
app.command("train")(train.train)
app.command("compare")(runs.compare)
app.command("view")(runs.view)
app.command("export")(export.export)
app.command("grade")(grade.grade)
app.command("validate")(validate.validate)
app.command("doctor")(doctor.doctor)


def main() -> None:
    """Run the command line; an error of ours is one sentence and exit status 2, never a traceback."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        app()
    except MarsError as error:
        Console(stderr=True).print(f"mars-env: {error}", style="red", markup=False, highlight=False)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _terminated(*_: object) -> None:
    """SIGTERM ends a command as Ctrl-C does: files closed, one sentence, the status that shells expect."""
    sys.exit(128 + signal.SIGTERM)
