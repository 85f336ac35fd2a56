"""A run through OpenRLHF: what a file says, checked and translated, then trained."""

import os
from collections.abc import Sequence

from mars_env.loggers import Logger
from mars_env.trainers.metrics import StepMetrics
from mars_env.trainers.openrlhf.arguments import parsed_arguments
from mars_env.trainers.openrlhf.planning.checks import check_launch
from mars_env.trainers.openrlhf.translation import complete_flags
from mars_env.trainers.recipes import RunSettings


def launch(settings: RunSettings, loggers: Sequence[Logger]) -> list[StepMetrics]:
    """Train with OpenRLHF; the metrics of each update. A `ConfigError` has a line for each wrong setting."""
    args = parsed_arguments(complete_flags(settings))
    check_launch(settings, args)
    # Workers that are started for this run read this before they import anything.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from mars_env.trainers.openrlhf.workers.driver import train_policies

    return train_policies(settings, args, loggers)
