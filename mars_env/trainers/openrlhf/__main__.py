"""``python -m mars_env.trainers.openrlhf``: see `mars_env.trainers.openrlhf.launch`."""

import sys
from collections.abc import Sequence

from mars_env.errors import MarsError
from mars_env.text import visible
from mars_env.trainers.openrlhf.help import help_text, is_asked
from mars_env.trainers.openrlhf.launch import launch
from mars_env.trainers.openrlhf.planning.dry_run import asked, dry_run
from mars_env.trainers.openrlhf.settings_file import import_beside, with_file

FITS_NOT = 3
"""Exit status of a dry run whose models do not fit."""


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit status."""
    try:
        if is_asked(arguments):
            sys.stdout.write(help_text() + "\n")
            return 0
        words, file = with_file(arguments)
        if file is not None:
            import_beside(file)
        gpu_gib, flags = asked(words)
        if gpu_gib is None:
            launch(flags)
            return 0
        plan = dry_run(flags, gpu_gib)
        sys.stdout.write(plan.text + "\n")
        return 0 if plan.fits else FITS_NOT
    except MarsError as error:
        sys.stderr.writelines(visible(f"error: {line}\n") for line in str(error).splitlines())
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
