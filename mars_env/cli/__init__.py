"""The command line: `mars-env --help`."""

import inspect
import io
import re
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from mars_env.errors import MarsError
from mars_env.lazy import import_object
from mars_env.text import raised, suggestion, users_line

_COMMANDS = {
    "envs": ("problems:envs", "List the games and the problem sets."),
    "problems": ("problems:problems", "Show the first problems of a set, or write them as a file."),
    "audit": ("audit:audit", "Look for rewards that are not earned, before you train on an environment."),
    "evaluate": ("evaluate:evaluate", "Play every problem n times with a team and print the report."),
    "solve": ("team:solve", "Let a team answer a question whose answer is unknown."),
    "serve": ("team:serve", "Serve a team as one model, or a place in a game as an environment to learn in."),
    "play": ("team:play_game", "Take a role in the terminal."),
    "train": ("train:train", "Train a team from a run file, on this machine or through OpenRLHF."),
    "compare": ("runs:compare", "Paired differences between two runs, B minus A, with 95% intervals."),
    "view": ("runs:view", "Write a run as one HTML page that needs no network."),
    "export": ("export:export", "Write a run as a data set for other trainers."),
    "check-rows": ("export:check_rows", "Check rows to train on, of this or another library."),
    "record": ("record:record", "Serve an OpenAI-compatible API that records each agent's calls."),
    "reward": ("record:reward", "Give the turns of a recorded run their rewards."),
    "grade": ("grade:grade", "Judge stored answers on all cores: one verdict a row."),
    "validate": ("grade:validate", "List the code problems of a set that are not fit for training."),
    "doctor": ("doctor:doctor", "Say what is installed and what is missing."),
}
"""Every command: its function in this package, imported when it is called, and what `--help` says of it."""


class _Commands(TyperGroup):
    """The commands by name: each is imported when it is called, none to list them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order in which a newcomer needs them."""
        return list(_COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called; an unknown name raises with the closest one."""
        if args[0] not in _COMMANDS:
            ctx.fail(f"there is no command {args[0]!r}{suggestion(args[0], _COMMANDS)}")
        return args[0], _command(args[0]), args[1:]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name as it is listed; None if there is none."""
        return TyperCommand(cmd_name, help=_COMMANDS[cmd_name][1]) if cmd_name in _COMMANDS else None


def _command(name: str) -> Any:
    """The command of a name, with -h, and help from its docstring."""
    from mars_env.cli.options import HELP

    function = import_object(f"mars_env.cli.{_COMMANDS[name][0]}")
    text, _, arguments = (inspect.getdoc(function) or "").partition("\n\nArgs:\n    ")
    entries = (parameter.partition(": ") for parameter in re.split(r"\n    (?=\w)", arguments))
    text = re.sub(r"(?<=\S)\n(?=\S)", " ", text)  # a line's end is no end of a line on a terminal
    meaning = HELP | {argument: " ".join(meant.split()) for argument, _, meant in entries}
    one = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    takes_settings = name == "train"
    one.command(name, context_settings=_SETTINGS if takes_settings else _HELP, help=text)(function)
    command: Any = typer.main.get_command(one)
    for parameter in command.params:
        parameter.help = meaning[parameter.name]
    return command


_HELP = {"help_option_names": ["-h", "--help"]}
_SETTINGS: dict[str, Any] = {"help_option_names": [], "ignore_unknown_options": True}
"""For a command whose arguments are settings, and which prints its own help."""

app = typer.Typer(
    cls=_Commands,
    help="Multi-agent environments for mathematics and code reasoning.",
    no_args_is_help=True,
    context_settings=_HELP,
    pretty_exceptions_enable=False,
)


def _version(is_wanted: bool) -> None:
    if is_wanted:
        from mars_env import __version__
        from mars_env.cli.screen import say

        say(f"mars_env {__version__}")
        raise typer.Exit


@app.callback()
def _commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Multi-agent environments for mathematics and code reasoning."""


def main() -> None:
    """Run the command line; a `MarsError` is one sentence and exit status 2, not a traceback.

    So is an error of a user's function, with the line that raised it and status 1. Modules of the working
    folder can be named (``my_module:my_reward``); installed ones go before them.
    """
    # SIGTERM ends a command as Ctrl-C does: files closed, one sentence, the status that shells expect.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal's encoding lacks is escaped, instead of ending the command.
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")
    if "" not in sys.path and (folder := str(Path.cwd())) not in sys.path:
        sys.path.append(folder)
    try:
        app()
    except Exception as error:
        refused = isinstance(error, MarsError)
        if not refused and not users_line(error):  # the library's fault: its traceback is needed
            raise
        from mars_env.cli.screen import Screen

        Screen(stderr=True).print(f"mars-env: {error if refused else raised(error)}", style="red")
        sys.exit(2 if refused else 1)
