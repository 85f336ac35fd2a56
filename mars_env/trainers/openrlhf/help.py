"""What ``--help`` prints: the flags of the team, with their documentation, and OpenRLHF's own."""

from __future__ import annotations

import json
import textwrap
from typing import Final

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from mars_env.errors import MissingExtra
from mars_env.trainers.openrlhf.arguments import parser_help
from mars_env.trainers.openrlhf.command_line import PREFIX
from mars_env.trainers.openrlhf.settings import TeamSettings

WIDTH: Final = 100

USAGE: Final = """\
usage: python -m mars_env.trainers.openrlhf [--config FILE] [--mars.NAME VALUE ...] [OpenRLHF's flags]

Trains a team with OpenRLHF (docs/openrlhf.md). Ready settings files: examples/openrlhf.

  --help                print this
  --config FILE         flags in a TOML file: adam.lr = 1e-6 in the table actor is --actor.adam.lr 1e-6,
                        true is a flag without a value. Flags given here replace the file's;
                        --NAME=false turns one off
  --dry-run[=GIB]       check all flags; print the plan, for GPUs of so many GiB (80); start nothing.
                        Exit status: 0 it fits, 1 a flag is rejected, 3 it does not fit"""


def help_text() -> str:
    """The help; OpenRLHF's part where its files are there, else what brings them."""
    parts = [USAGE, "", "The team's flags:"]
    parts += [_entry(name, field) for name, field in TeamSettings.model_fields.items()]
    try:
        theirs = parser_help().partition("options:")[2].strip("\n")
        parts += ["", "OpenRLHF's flags:", theirs]
    except MissingExtra as missing:
        parts += ["", f"OpenRLHF's flags are not known here: {missing}"]
    return "\n".join(parts)


def _entry(name: str, field: FieldInfo) -> str:
    said = " ".join((field.description or "").replace("``", "").replace("`", "").split())
    default = field.get_default(call_default_factory=True)
    if default not in (None, PydanticUndefined, {}, ""):
        said += f" Default: {default if isinstance(default, str) else json.dumps(default)}."
    wrapped = textwrap.fill(said, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return f"  {PREFIX}{name}\n{wrapped}"
