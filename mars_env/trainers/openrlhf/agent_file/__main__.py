"""``python -m mars_env.trainers.openrlhf.agent_file team.json prompts/``: writes prompts, prints flags."""

import sys
from collections.abc import Sequence

from mars_env.errors import ConfigError, MarsError
from mars_env.trainers.openrlhf.agent_file.prompts import agent_file_flags, read_settings


def main(arguments: Sequence[str]) -> int:
    """The command."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m mars_env.trainers.openrlhf.agent_file SETTINGS.json DIRECTORY\n")
        return 2
    try:
        flags = agent_file_flags(read_settings(arguments[0]), arguments[1])
        if spaced := [flag for flag in flags if len(flag.split()) != 1]:
            raise ConfigError(f"a shell would divide {spaced[0]!r} at its spaces: take a folder without them")
    except MarsError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(" ".join(flags) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
