"""Training that stops at a number of sampled tokens, so that every way to credit a team costs the same."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from mars_env.models.hf import HFModel
from mars_env.rollout import UpdateBatch
from mars_env.trainers.loop import fit, trainer_of
from mars_env.trainers.metrics import StepMetrics
from mars_env.trainers.rollouts import rollouts
from studies.credit.games import CreditGame

MOST_UPDATES: Final = 10_000
"""No run gets this far: its tokens are spent before."""


@dataclass(slots=True)
class Training:
    """A model after its training, the metrics of each update, and the tokens sampled until each."""

    model: HFModel
    history: list[StepMetrics] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)


async def train_within(
    game: CreditGame, model: HFModel, changes: Mapping[str, Any], seed: int, tokens: int
) -> Training:
    """Train a model in a game; the update whose batch reaches the number of tokens is the last.

    `changes` differ from the game's settings of the update.
    """
    settings = game.settings.with_(seed=seed, steps=MOST_UPDATES, train=changes)
    team, play = game.team(settings, model), game.play()
    trainer = trainer_of(play, team, settings, settings.train, {})
    training = Training(model)

    async def batches(done: int) -> AsyncGenerator[UpdateBatch]:
        played = rollouts(play, team, game.problems(seed=seed, split="train"), settings, done=done)
        async with aclosing(played) as due:
            async for batch in due:
                training.sampled.append(sampled_tokens(batch) + sum(training.sampled[-1:]))
                yield batch
                if training.sampled[-1] >= tokens:
                    return

    training.history = await fit(trainer, batches, settings.steps, refresh=team.refresh)
    return training


def sampled_tokens(batch: UpdateBatch) -> int:
    """Tokens that the turns of a batch sampled, trained or not."""
    turns = (turn for group in batch.groups for turn in group.turns)
    return sum(completion.sampled_tokens for turn in turns for completion in turn.action.completions)
