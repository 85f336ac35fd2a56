"""All checks of a run's settings before it starts, reported together."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from mars_env.errors import ConfigError
from mars_env.trainers.architecture import architecture_of
from mars_env.trainers.openrlhf.planning.placement import gpu_pools
from mars_env.trainers.openrlhf.rollouts.responses import batch_shape
from mars_env.trainers.openrlhf.translation import policies_of, require_supported
from mars_env.trainers.recipes import RunSettings

_HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def check_launch(settings: RunSettings, args: SimpleNamespace) -> dict[str, str]:
    """The checkpoints of the policies, after all checks; a `ConfigError` has a line for each that fails."""
    policies = policies_of(settings)
    checks: list[Callable[[], Any]] = [
        partial(require_supported, settings, args),
        partial(batch_shape, args),
        partial(gpu_pools, args),
        partial(require_length, settings, args.data.max_len),
    ]
    for checkpoint in dict.fromkeys(policies.values()):
        checks.append(partial(require_model, checkpoint))
        checks.append(partial(require_context, checkpoint, args.data.max_len))
    wrong: dict[str, None] = {}
    for check in checks:
        try:
            check()
        except ConfigError as error:
            wrong |= dict.fromkeys(str(error).splitlines())
    if wrong:
        raise ConfigError("\n".join(wrong))
    return policies


def require_model(checkpoint: str) -> None:
    """Check that a checkpoint is there, as far as this machine can tell, with ConfigError; hub names pass."""
    path = Path(checkpoint)
    if path.is_dir():
        if not (path / "config.json").exists():
            raise ConfigError(
                f"team.model {checkpoint!r} is a folder without a config.json: correct its path"
            )
    elif not _HUB_NAME.fullmatch(checkpoint) or (path.parent != Path() and path.parent.is_dir()):
        raise ConfigError(f"team.model {checkpoint!r} is not a folder here: correct its path")


def require_context(checkpoint: str, max_len: int) -> None:
    """Reject a length beyond the model's context with ConfigError; unknown models are left to the engines."""
    try:
        context = architecture_of(checkpoint).context
    except ConfigError:
        return
    if context is not None and max_len > context:
        raise ConfigError(f"engine.context {max_len} is beyond the context of {checkpoint}, {context} tokens")


def require_length(settings: RunSettings, max_len: int) -> None:
    """Reject, with ConfigError, completions that may fill the context by themselves."""
    limit = settings.sampling.max_tokens
    if limit >= max_len:
        raise ConfigError(f"sampling.max_tokens {limit} fills engine.context {max_len}: take half")
