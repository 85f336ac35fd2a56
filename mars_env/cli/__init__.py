"""The command line: `mars-env --help`."""

from __future__ import annotations

import signal
import sys
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from mars_env.errors import MarsError
from mars_env.lazy import resolve

_COMMANDS = {
    "envs": ("mars_env.cli.problems:envs", "List the environment ids."),
    "problems": (
        "mars_env.cli.problems:problems",
        "Show the first problems of a set; with --jsonl as rows that `grade` and `make` take.",
    ),
    "evaluate": (
        "mars_env.cli.evaluate:evaluate",
        "Play every problem n times with a team and print the report, with 95% intervals.",
    ),
    "train": (
        "mars_env.cli.train:train",
        "Train a team: one model shared by all roles, one for each, or adapters.",
    ),
    "compare": (
        "mars_env.cli.runs:compare",
        "Paired differences between two runs, B minus A, with 95% intervals.",
    ),
    "view": ("mars_env.cli.runs:view", "Write a run as one HTML page that needs no network."),
    "export": (
        "mars_env.cli.export:export",
        "Write a run as supervised examples (sft), preference pairs (dpo), samples, or a table (parquet).",
    ),
    "record": (
        "mars_env.cli.record:record",
        "Serve an OpenAI-compatible API that keeps the tokens and log-probabilities of each agent's calls.",
    ),
    "reward": ("mars_env.cli.record:reward", "Give the turns of a recorded run their rewards."),
    "grade": (
        "mars_env.cli.grade:grade",
        "Judge stored answers on all cores: one verdict a row, in the order of the input.",
    ),
    "validate": (
        "mars_env.cli.validate:validate",
        "Run every reference solution (must pass) and mutants of it (must fail); list what is not fit.",
    ),
    "doctor": ("mars_env.cli.doctor:doctor", "Say what is installed and what is missing."),
}
"""Every command: the function behind it, imported when it is called, and what `--help` says of it."""


class _Deferred(TyperCommand):
    """A command whose function is imported when it is called."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> Any:
        """The context of the real command, to which the call then goes."""
        return _command(self.name or "").make_context(info_name, args, *rest, **extra)


class _Commands(TyperGroup):
    """The commands by name; listing them imports none."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the order in which a newcomer needs them."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name; None if there is none."""
        return _Deferred(cmd_name, help=_COMMANDS[cmd_name][1]) if cmd_name in _COMMANDS else None


def _command(name: str) -> Any:
    one = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    one.command(name)(resolve(_COMMANDS[name][0]))
    return typer.main.get_command(one)


app = typer.Typer(
    cls=_Commands,
    help="Multi-agent environments for mathematics and code reasoning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _commands() -> None:
    """Multi-agent environments for mathematics and code reasoning."""


def main() -> None:
    """Run the command line; a `MarsError` is one sentence and exit status 2, not a traceback."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        app()
    except MarsError as error:
        from mars_env.cli.screen import Screen

        Screen(stderr=True).print(f"mars-env: {error}", style="red")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _terminated(*_: object) -> None:
    """SIGTERM ends a command as Ctrl-C does: files closed, one sentence, the status that shells expect."""
    sys.exit(128 + signal.SIGTERM)
