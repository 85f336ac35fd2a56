"""``python -m mars_env.trainers.openrlhf``: see `mars_env.trainers.openrlhf.launch`."""

import sys
from collections.abc import Sequence

from mars_env.errors import MarsError
from mars_env.text import visible
from mars_env.trainers.openrlhf.command_line import read
from mars_env.trainers.openrlhf.help import help_text
from mars_env.trainers.openrlhf.launch import launch
from mars_env.trainers.openrlhf.planning.dry_run import DRY_RUN, dry_run

FITS_NOT = 3
"""Exit status of a dry run whose models do not fit."""


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit status."""
    try:
        if {"-h", "--help"}.intersection(arguments):
            sys.stdout.write(help_text() + "\n")
            return 0
        flags = read(arguments)
        if DRY_RUN not in flags:
            launch(flags)
            return 0
        plan = dry_run(flags)
        sys.stdout.write(plan.text + "\n")
        return 0 if plan.fits else FITS_NOT
    except MarsError as error:
        sys.stderr.writelines(visible(f"error: {line}\n") for line in str(error).splitlines())
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
