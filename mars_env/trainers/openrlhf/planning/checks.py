"""All checks of a run's settings before it starts, reported together."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.flags import refuse
from mars_env.trainers.openrlhf.planning.resources import placement
from mars_env.trainers.openrlhf.planning.room import require_room_for
from mars_env.trainers.openrlhf.planning.sizes import require_context, require_model
from mars_env.trainers.openrlhf.policies import plays
from mars_env.trainers.openrlhf.rollouts.responses import shape_of
from mars_env.trainers.openrlhf.settings import TeamSettings


def check_run(settings: TeamSettings, args: SimpleNamespace) -> list[tuple[str, str]]:
    """Check the settings of a run.

    Args:
        settings: The team's.
        args: OpenRLHF's arguments, parsed.

    Returns:
        The policies and what they start from.

    Raises:
        ConfigError: A line for each setting that is wrong.
    """
    wrong: list[str] = []
    _attempt(wrong, check_flags, settings, args)
    policies: list[tuple[str, str]] = _attempt(wrong, checkpoints, settings, args) or []
    for name, checkpoint in policies:
        flag = f"--mars.policies {name}" if name else "--actor.model_name_or_path"
        _attempt(wrong, require_model, checkpoint, flag)
        _attempt(wrong, require_context, checkpoint, args.data.max_len)
        _attempt(wrong, require_room_for, settings, args, checkpoint)
    if wrong:
        raise ConfigError("\n".join(dict.fromkeys(wrong)))
    return policies


def check_flags(settings: TeamSettings, args: SimpleNamespace) -> None:
    """Check what needs no model and no problems: flags, batches and GPUs.

    Raises:
        ConfigError: A line for each setting that is wrong.
    """
    wrong: list[str] = []
    _attempt(wrong, refuse, settings, args)
    _attempt(wrong, shape_of, args)
    _attempt(wrong, placement, args)
    if wrong:
        raise ConfigError("\n".join(dict.fromkeys(wrong)))


def _attempt(wrong: list[str], check: Callable[..., Any], *given: Any) -> Any:
    """What a check returns; None where it fails, and its lines are noted."""
    try:
        return check(*given)
    except ConfigError as error:
        wrong.extend(str(error).splitlines())
        return None


def checkpoints(settings: TeamSettings, args: SimpleNamespace) -> list[tuple[str, str]]:
    """Policies and what they start from; one without a name where there is one policy.

    Raises:
        ConfigError: There is none, or agents and policies do not fit.
    """
    if settings.policies:
        agents = settings.game().rules.possible_agents
        plays(agents, settings.policies, settings.plays, settings.others)
        return list(settings.policies.items())
    if not args.actor.model_name_or_path:
        raise ConfigError("say what is trained: --actor.model_name_or_path, a checkpoint's path or name")
    return [("", args.actor.model_name_or_path)]
