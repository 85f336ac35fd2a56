"""The launcher: checks the flags, and trains."""

import os

from mars_env.trainers.openrlhf.arguments import parsed_arguments
from mars_env.trainers.openrlhf.command_line import Flags
from mars_env.trainers.openrlhf.flags import complete, resolved
from mars_env.trainers.openrlhf.planning.checks import check_launch
from mars_env.trainers.openrlhf.settings import read_flags
from mars_env.trainers.openrlhf.versions import require_stack


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
