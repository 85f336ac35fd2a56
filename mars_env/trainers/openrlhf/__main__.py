"""``python -m mars_env.trainers.openrlhf``: train, plan with ``--dry-run``, or print ``--help``."""

import contextlib
import io
import json
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Final

from mars_env.errors import MarsError, MissingExtra
from mars_env.text import visible
from mars_env.trainers.openrlhf.arguments import parsed_arguments
from mars_env.trainers.openrlhf.command_line import PREFIX, Flags, read_argv
from mars_env.trainers.openrlhf.flags import complete, resolved
from mars_env.trainers.openrlhf.planning.checks import check_launch
from mars_env.trainers.openrlhf.planning.dry_run import DRY_RUN, dry_run
from mars_env.trainers.openrlhf.settings import SETTING_NAMES, TeamSettings, read_flags
from mars_env.trainers.openrlhf.versions import require_stack

FITS_NOT: Final = 3
"""Exit status of a dry run whose models do not fit."""

USAGE: Final = """\
usage: python -m mars_env.trainers.openrlhf [--config FILE] [--mars.NAME VALUE ...] [OpenRLHF's flags]

Trains a team with OpenRLHF (docs/openrlhf.md). Ready settings files: examples/openrlhf.

  --help                print this
  --config FILE         flags in a TOML file: adam.lr = 1e-6 in the table actor is --actor.adam.lr 1e-6,
                        true is a flag without a value. Flags given here replace the file's;
                        --NAME=false turns one off
  --dry-run[=GIB]       check all flags; print the plan, for GPUs of so many GiB (80); start nothing.
                        Exit status: 0 it fits, 1 a flag is rejected, 3 it does not fit"""


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit status."""
    try:
        if {"-h", "--help"}.intersection(arguments):
            sys.stdout.write(_help() + "\n")
            return 0
        flags = read_argv(arguments)
        if DRY_RUN not in flags:
            launch(flags)
            return 0
        plan = dry_run(flags)
        sys.stdout.write(plan.text + "\n")
        return 0 if plan.fits else FITS_NOT
    except MarsError as error:
        sys.stderr.writelines(visible(f"error: {line}\n") for line in str(error).splitlines())
        return 1


def launch(given: Flags) -> None:
    """Train with the flags that `mars_env.trainers.openrlhf.command_line.read_argv` returned.

    Raises:
        ConfigError: A flag is rejected, here or by OpenRLHF (a line for each), or a version is not supported.
        MissingExtra: OpenRLHF is not installed.
    """
    settings, flags = read_flags(given)
    require_stack()
    settings = resolved(settings, flags)
    args = parsed_arguments(complete(settings, flags))
    check_launch(settings, args)
    # Workers that are started for this run read this before they import anything.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from mars_env.trainers.openrlhf.workers.driver import train_policies

    train_policies(settings, args)


def _help() -> str:
    """The flags of the team, and OpenRLHF's own where its files are there."""
    theirs = io.StringIO()
    try:
        with contextlib.redirect_stdout(theirs), contextlib.suppress(SystemExit):
            parsed_arguments({"--help": []})
        rest = ["OpenRLHF's flags:", theirs.getvalue().partition("options:")[2].strip("\n")]
    except MissingExtra as missing:
        rest = [f"OpenRLHF's flags are not known here: {missing}"]
    return "\n".join([USAGE, "", "The team's flags:", *map(_entry, SETTING_NAMES), "", *rest])


def _entry(name: str) -> str:
    field = TeamSettings.model_fields[name]
    words = " ".join((field.description or "").replace("`", "").split())
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    if default not in (None, {}):
        words += f" Default: {default if isinstance(default, str) else json.dumps(default)}."
    indent = " " * 6
    wrapped = textwrap.fill(words, 100, initial_indent=indent, subsequent_indent=indent)
    return f"  {PREFIX}{name}\n{wrapped}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
