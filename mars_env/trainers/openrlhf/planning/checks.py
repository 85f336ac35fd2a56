"""All checks of a run's settings before it starts, reported together."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from mars_env.agents.registry import roles_of
from mars_env.envs.contexts import require_room
from mars_env.errors import ConfigError, explained
from mars_env.models.requests import TokenWriter, prompt_text
from mars_env.sync import run_sync
from mars_env.trainers.openrlhf.flags import require_supported, sampling_of
from mars_env.trainers.openrlhf.planning.memory import gpu_pools
from mars_env.trainers.openrlhf.planning.models import architecture_of
from mars_env.trainers.openrlhf.rollouts.responses import batch_shape
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.trainers.openrlhf.team import POLICY, agents_by_name, policy_by_agent
from mars_env.types import Model, Prompt, Sampling

_HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def check_launch(settings: TeamSettings, args: SimpleNamespace) -> list[tuple[str, str]]:
    """Check the settings of a run.

    Returns:
        The policies and what they start from; one without a name where there is one policy.

    Raises:
        ConfigError: A line for each setting that is wrong.
    """
    policies = list(settings.policies.items()) or [("", args.actor.model_name_or_path or "")]
    checks: list[Callable[[], Any]] = [partial(check_flags, settings, args)]
    if settings.policies:
        checks.append(lambda: policy_by_agent(settings, settings.game().rules.possible_agents))
    for name, checkpoint in policies:
        flag = f"--mars.policies {name}" if name else "--actor.model_name_or_path"
        checks.append(partial(require_model, checkpoint, flag))
        if checkpoint:
            checks.append(partial(require_context, checkpoint, args.data.max_len))
            checks.append(partial(require_room_for, settings, args, checkpoint))
    _run_all(*checks)
    return policies


def check_flags(settings: TeamSettings, args: SimpleNamespace) -> None:
    """Check what needs no model and no problems: flags, batches and GPUs. Raises as `check_launch`."""
    _run_all(partial(require_supported, settings, args), partial(batch_shape, args), partial(gpu_pools, args))


def _run_all(*checks: Callable[[], Any]) -> None:
    """Run all checks, and raise the errors of all that fail."""
    wrong: dict[str, None] = {}
    for check in checks:
        try:
            check()
        except ConfigError as error:
            wrong |= dict.fromkeys(str(error).splitlines())
    if wrong:
        raise ConfigError("\n".join(wrong))


def require_model(checkpoint: str, flag: str) -> None:
    """Check that a checkpoint is there, as far as this machine can tell, with ConfigError; hub names pass."""
    path = Path(checkpoint)
    if not checkpoint:
        raise ConfigError(f"say what is trained: {flag}, a checkpoint's path or name")
    if path.is_dir():
        if not (path / "config.json").exists():
            raise ConfigError(f"{flag} {checkpoint!r} is a folder without a config.json: correct its path")
    elif not _HUB_NAME.fullmatch(checkpoint) or (path.parent != Path() and path.parent.is_dir()):
        raise ConfigError(f"{flag} {checkpoint!r} is not a folder here: correct its path")


def require_context(checkpoint: str, max_len: int) -> None:
    """Reject a length beyond the model's context with ConfigError; unknown models are left to the engines."""
    try:
        context = architecture_of(checkpoint).context
    except ConfigError:
        return
    if context is not None and max_len > context:
        raise ConfigError(f"--data.max_len {max_len} is beyond the context of {checkpoint}, {context} tokens")


def require_room_for(settings: TeamSettings, args: SimpleNamespace, checkpoint: str) -> None:
    """Reject flags with which a prompt can leave less room than a completion may need, evaluation included.

    Prompts are counted by the model's tokenizer if its folder is on this machine. Otherwise a word counts as
    one token, which underestimates rather than overestimates. A completion that fills the context by itself
    is rejected whatever ``--mars.overflow`` is.
    """
    context, limit = args.data.max_len, args.rollout.max_new_tokens
    if limit and limit >= context:
        raise ConfigError(f"--rollout.max_new_tokens {limit} fills --data.max_len {context}: take half")
    models = dict.fromkeys(settings.policies or [POLICY], cast(Model, _Reader(context, checkpoint)))
    games = [(settings.game(), settings.training_problems(), False)]
    if settings.eval_problems:
        games.append((settings.evaluation_game(), settings.evaluation_problems(), True))
    for game, problems, evaluation in games:
        names = [name for name in game.rules.possible_agents if not settings.is_frozen(name)]
        sampling = sampling_of(settings, args, evaluation=evaluation)
        agents = agents_by_name(settings, names, models, sampling, roles=roles_of(game.rules))
        flags = "--data.max_len and --rollout.max_new_tokens (or --mars.overflow unknown)"
        with explained(ConfigError, flags, ConfigError):
            run_sync(require_room(game.rules, agents, problems))


class _Reader(TokenWriter):
    """Stands in for the engines: it knows their context, and a prompt's length in tokens or else in words."""

    name = "actor"

    def __init__(self, context: int, checkpoint: str) -> None:
        self.context, self.tokenizer = context, _tokenizer(checkpoint)
        self.vocabulary = len(self.tokenizer or ())

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Any]:
        raise ConfigError("nothing is sampled before a run starts")

    def encode(self, prompt: Prompt, tools: Sequence[Mapping[str, Any]] = ()) -> tuple[int, ...]:
        if self.tokenizer is None:
            return (0,) * max(1, len(prompt_text(prompt).split()))
        return super().encode(prompt, tools)


def _tokenizer(checkpoint: str) -> Any:
    """The tokenizer of a folder; None for a name, in a light install, and for a folder with weights only."""
    if not Path(checkpoint).is_dir():
        return None
    try:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(checkpoint, local_files_only=True)
    except (ModuleNotFoundError, OSError, ValueError):
        return None
