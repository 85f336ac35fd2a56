"""``python -m mars_env.trainers.openrlhf``: see `mars_env.trainers.openrlhf.launch`."""

import sys

from mars_env.errors import MarsError
from mars_env.trainers.openrlhf.launch import launch
from mars_env.trainers.openrlhf.planning.dry_run import asked, dry_run

if __name__ == "__main__":
    try:
        gpu_gib, flags = asked(sys.argv[1:])
        if gpu_gib is None:
            launch(flags)
        else:
            sys.stdout.write(dry_run(flags, gpu_gib) + "\n")
    except MarsError as error:
        sys.exit(f"error: {error}")
