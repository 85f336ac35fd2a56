"""Writes docs/reference/command-line.md from the help of every command.

python scripts/write_command_line.py           # writes the page
python scripts/write_command_line.py --check   # fails if the page does not say what the help says
"""

import sys
from pathlib import Path

import typer

from mars_env.cli import _COMMANDS, _command
from mars_env.files import write_atomically

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "command-line.md"
HEAD = """# The command line

`mars-env COMMAND --help` says the same as this page, which `scripts/write_command_line.py` makes from it. An
environment id is `<problem set>-<game>`; modules of the working folder can be named in it
(`my_module:my-set-my-game`).
"""


def cell(words):
    return " ".join(str(words or "").split()).replace("|", "\\|")


def option(name):
    """An option with its type; choices have no bars between them, which would divide a table's cell."""
    return name.replace("|", ", ")


def section(name):
    """One command: its arguments and options with what they mean."""
    command = _command(name)
    context = typer.Context(command)
    usage = " ".join(piece for each in command.params for piece in each.get_usage_pieces(context))
    lines = ["", f"## {name}", "", f"    mars-env {name} [OPTIONS] {usage}".rstrip(), ""]
    lines += [cell(command.help).replace("*", "\\*"), ""]
    rows = [each.get_help_record(context) for each in command.params if each.name != "help"]
    lines += ["| option | meaning |", "|---|---|"] if rows else []
    lines += [f"| `{option(row[0])}` | {cell(row[1])} |" for row in rows]
    return "\n".join(lines)


def page():
    return HEAD + "".join(f"{section(name).rstrip()}\n" for name in _COMMANDS)


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if PAGE.read_text(encoding="utf-8") != page():
            sys.exit(f"{PAGE.name} is not what the commands say: run python scripts/write_command_line.py")
    else:
        write_atomically(PAGE, page())
