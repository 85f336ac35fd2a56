"""Checks that ``--data.max_len`` leaves room for ``--rollout.max_new_tokens``."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from mars_env.agents.registry import roles_of
from mars_env.envs.contexts import require_room
from mars_env.errors import ConfigError
from mars_env.models.encoding import encode_prompt
from mars_env.models.requests import prompt_text
from mars_env.sync import run_sync
from mars_env.trainers.openrlhf.flags import sampling_of
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.trainers.openrlhf.team import make_team
from mars_env.types import Model, Prompt, Sampling, role_of


class _Reader:
    """Stands in for the engines: it knows their context, and a prompt's length in tokens or else in words."""

    name = "actor"

    def __init__(self, context: int, checkpoint: str) -> None:
        self.context, self._tokenizer = context, _tokenizer(checkpoint)

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Any]:
        raise ConfigError("nothing is sampled before a run starts")

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        if self._tokenizer is None:
            return (0,) * max(1, len(prompt_text(prompt).split()))
        return encode_prompt(self._tokenizer, prompt, len(self._tokenizer), self.name, {})


def require_room_for(settings: TeamSettings, args: SimpleNamespace, checkpoint: str) -> None:
    """Reject flags with which a prompt can leave less room than a completion may need, evaluation included.

    Prompts are counted by the model's tokenizer if its folder is on this machine. Otherwise a word counts as
    one token, which underestimates rather than overestimates.

    Args:
        settings: The team's.
        args: OpenRLHF's arguments, parsed.
        checkpoint: Path or name of the model that is trained.

    Raises:
        ConfigError: A prompt can; the message has the numbers. Or a completion fills the context by itself,
            whatever ``--mars.overflow`` is.
    """
    context, limit = args.data.max_len, args.rollout.max_new_tokens
    if limit and limit >= context:
        raise ConfigError(
            f"--rollout.max_new_tokens {limit} leaves no room for a prompt in --data.max_len {context}: "
            f"set --rollout.max_new_tokens {max(1, context // 2)}"
        )
    reader = cast(Model, _Reader(context, checkpoint))
    played = [(settings.game(), settings.training_problems(), False)]
    if settings.eval_problems:
        played.append((settings.evaluation_game(), settings.evaluation_problems(), True))
    for game, problems, evaluation in played:
        names = [
            name for name in game.rules.possible_agents if not {name, role_of(name)} & set(settings.others)
        ]
        team = make_team(
            settings,
            names,
            reader,
            sampling_of(settings, args, evaluation=evaluation),
            roles=roles_of(game.rules),
        )
        try:
            run_sync(require_room(game.rules, team, problems))
        except ConfigError as error:
            raise ConfigError(
                f"--data.max_len and --rollout.max_new_tokens: {error} (here: --mars.overflow unknown)"
            ) from error


def _tokenizer(checkpoint: str) -> Any:
    """The tokenizer of a folder; None for a name, in a light install, and for a folder with weights only."""
    if not Path(checkpoint).is_dir():
        return None
    try:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(checkpoint, local_files_only=True)
    except (ModuleNotFoundError, OSError, ValueError):
        return None
