"""``python -m mars_env.trainers.openrlhf``: see `mars_env.trainers.openrlhf.launch`."""

import sys

from mars_env.errors import MarsError
from mars_env.trainers.openrlhf.launch import launch

if __name__ == "__main__":
    try:
        launch(sys.argv[1:])
    except MarsError as error:
        sys.exit(f"error: {error}")
