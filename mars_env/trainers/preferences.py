"""Preferences from rewards: the turns of a group with the highest rewards against those with the lowest.

PromptCoT 2.0 (arXiv 2509.19894) trains by DPO on right rollouts (chosen) and wrong ones (rejected); with
rewards 1 and 0 that is what is made here. No torch in here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from mars_env.errors import ConfigError
from mars_env.trainers.advantages import turn_key
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.samples import TurnSample, turn_samples
from mars_env.types import Group


def pairs_of(
    groups: Sequence[Group],
    config: TrainConfig,
    policies: Collection[str] | None = None,
    frozen: Collection[str] = (),
) -> list[TurnSample]:
    """Pairs of samples, the chosen one first, flat: chosen, rejected, chosen, rejected ...

    In each group the turns with the highest known reward are chosen, those with the lowest rejected. Each
    turn is in one pair at most, in the order of the keys, so a group gives as many pairs as the smaller side
    has turns. Turns of unknown reward are in no pair, and groups whose rewards are all equal give none. (How
    many pairs a group gives is our choice: the paper does not say it.) Log-probabilities are compared at
    temperature 1, whatever the turns were sampled at.

    Raises:
        ConfigError: The turns of a group differ in policy or prompt, a turn has several completions, or it
            cannot be trained on (see `turn_samples`).

    Example:
        >>> from mars_env.trainers.samples import _example_group
        >>> [sample.reward for sample in pairs_of([_example_group()], TrainConfig())]
        [1.0, 0.0]
    """
    found: list[TurnSample] = []
    for group in sorted(groups, key=lambda group: group.id):
        known = {turn_key(turn): turn.reward for turn in group.turns if turn.reward is not None}
        if len(set(known.values())) < 2:
            continue
        top, least = max(known.values()), min(known.values())
        ends = {key: 0.0 for key, reward in known.items() if reward in (top, least)}
        samples = turn_samples([group], config, advantages=ends, policies=policies, frozen=frozen)
        if len({(sample.tree_id, sample.turn_id) for sample in samples}) < len(samples):
            raise ConfigError(f"group {group.id!r}: a turn of several completions has no preference")
        chosen = [sample for sample in samples if known[sample.tree_id, sample.turn_id] == top]
        rejected = [sample for sample in samples if known[sample.tree_id, sample.turn_id] == least]
        for pair in zip(chosen, rejected, strict=False):
            if pair[0].prompt_ids != pair[1].prompt_ids or pair[0].policy != pair[1].policy:
                raise ConfigError(
                    f"group {group.id!r}: preferences compare answers of one policy to one prompt"
                )
            found += (replace(sample, temperature=1.0) for sample in pair)
    return found
