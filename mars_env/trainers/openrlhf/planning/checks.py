"""All checks of a run's settings before it starts, reported together."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.flags import refuse
from mars_env.trainers.openrlhf.planning.resources import placement
from mars_env.trainers.openrlhf.planning.room import require_room_for
from mars_env.trainers.openrlhf.planning.sizes import architecture_of
from mars_env.trainers.openrlhf.policies import plays
from mars_env.trainers.openrlhf.rollouts.responses import shape_of
from mars_env.trainers.openrlhf.settings import TeamSettings

_HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def check_run(settings: TeamSettings, args: SimpleNamespace) -> list[tuple[str, str]]:
    """Check the settings of a run.

    Args:
        settings: The team's.
        args: OpenRLHF's arguments, parsed.

    Returns:
        The policies and what they start from; one without a name where there is one policy.

    Raises:
        ConfigError: A line for each setting that is wrong.
    """
    policies = list(settings.policies.items()) or [("", args.actor.model_name_or_path or "")]
    checks: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (check_flags, (settings, args)),
        (_require_plays, (settings,)),
    ]
    for name, checkpoint in policies:
        flag = f"--mars.policies {name}" if name else "--actor.model_name_or_path"
        checks.append((require_model, (checkpoint, flag)))
        if checkpoint:
            checks.append((require_context, (checkpoint, args.data.max_len)))
            checks.append((require_room_for, (settings, args, checkpoint)))
    _attempt(*checks)
    return policies


def check_flags(settings: TeamSettings, args: SimpleNamespace) -> None:
    """Check what needs no model and no problems: flags, batches and GPUs.

    Raises:
        ConfigError: A line for each setting that is wrong.
    """
    _attempt((refuse, (settings, args)), (shape_of, (args,)), (placement, (args,)))


def _attempt(*checks: tuple[Callable[..., Any], tuple[Any, ...]]) -> None:
    """Run all checks, and raise the errors of all that fail."""
    wrong: dict[str, None] = {}
    for check, given in checks:
        try:
            check(*given)
        except ConfigError as error:
            wrong |= dict.fromkeys(str(error).splitlines())
    if wrong:
        raise ConfigError("\n".join(wrong))


def _require_plays(settings: TeamSettings) -> None:
    if settings.policies:
        agents = settings.game().rules.possible_agents
        plays(agents, settings.policies, settings.plays, settings.others)


def require_model(checkpoint: str, flag: str) -> None:
    """Check that a checkpoint is there, as far as this machine can tell; a name on a hub passes.

    Raises:
        ConfigError: It is a path to nothing, a folder without a model, or no name that a hub could have.

    Example:
        >>> require_model("Qwen/Qwen3-8B", "--actor.model_name_or_path")
        >>> require_model("./base", "--actor.model_name_or_path")
        Traceback (most recent call last):
        mars_env.errors.ConfigError: --actor.model_name_or_path './base' is no folder here: correct its path
    """
    path = Path(checkpoint)
    if not checkpoint:
        raise ConfigError(f"say what is trained: {flag}, a checkpoint's path or name")
    if path.is_dir():
        if not (path / "config.json").exists():
            raise ConfigError(f"{flag} {checkpoint!r} is a folder without a config.json: correct its path")
    elif not _HUB_NAME.fullmatch(checkpoint) or (path.parent != Path() and path.parent.is_dir()):
        raise ConfigError(f"{flag} {checkpoint!r} is no folder here: correct its path")


def require_context(checkpoint: str, max_len: int) -> None:
    """Reject a length that the engines would reject only after minutes; unknown models are left to them.

    Raises:
        ConfigError: The model's context is shorter.

    Example:
        >>> require_context("Qwen/Qwen3-8B", 65_536)
        Traceback (most recent call last):
        mars_env.errors.ConfigError: --data.max_len 65536 is beyond the context of Qwen/Qwen3-8B, 40960 tokens
    """
    try:
        context = architecture_of(checkpoint).context
    except ConfigError:
        return
    if context is not None and max_len > context:
        raise ConfigError(f"--data.max_len {max_len} is beyond the context of {checkpoint}, {context} tokens")
