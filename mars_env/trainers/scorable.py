"""Turns that can be scored: they have token ids, and a log-probability of each. No torch in here.

A turn that cannot be scored leaves its group, as one of unknown reward does, and is counted by its reason.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from mars_env.checks import are_logprobs
from mars_env.errors import ModelError
from mars_env.trainers.advantages import turn_key
from mars_env.trainers.config import Credit, estimator_of
from mars_env.types import Group, Turn


def unscorable(turn: Turn) -> str:
    """Why a turn cannot be scored; empty if it can.

    ``"no_tokens"``: a completion lacks token ids, of its prompt or its own. ``"no_logprobs"``: not every
    token has a log-probability. ``"bad_logprobs"``: one is unknown, not finite, or above 0 by more than
    rounding. ``"greedy"``: it was sampled at temperature 0, where log-probabilities say nothing.

    Example:
        >>> from mars_env.trainers.advantages import _example_group
        >>> unscorable(_example_group([1.0]).turns[0])
        ''
    """
    completions = turn.action.completions
    if not completions or not all(c.prompt_ids and c.token_ids for c in completions):
        return "no_tokens"
    if any(len(c.logprobs) != len(c.token_ids) for c in completions):
        return "no_logprobs"
    if not all(are_logprobs(c.logprobs) for c in completions):
        return "bad_logprobs"
    return "greedy" if any(c.temperature <= 0 for c in completions) else ""


def scorable_groups(
    groups: Sequence[Group], config: Credit, frozen: Collection[str] = (), *, required: bool = False
) -> tuple[list[Group], dict[str, int]]:
    """The groups, in which the reward of turns that cannot be scored is None; and their number by reason.

    Turns that are not trained stay: those of `frozen` policies and of other roles. A ModelError if some turn
    is required, and of those to be trained none can be scored.
    """
    counts = Counter[str]()

    def known(turn: Turn) -> Turn:
        reason = unscorable(turn) if _is_trained(turn, config, frozen) else ""
        counts[reason] += 1
        return replace(turn, reward=None) if reason else turn

    cleaned = [replace(group, turns=tuple(map(known, group.turns))) for group in groups]
    del counts[""]
    turns = (turn for group in cleaned for turn in group.turns)
    if required and counts and not any(_is_trained(turn, config, frozen) for turn in turns):
        reasons = ", ".join(f"{reason} {number}" for reason, number in sorted(counts.items()))
        raise ModelError(
            f"no turn of a step can be trained on ({reasons}): take models that give token ids and "
            "log-probabilities (HFModel, vLLM), or leave the role out (train_roles)"
        )
    return cleaned, dict(counts)


def has_no_gradient(config: Credit, group: Group, frozen: Collection[str] = ()) -> bool:
    """Whether a group has no policy gradient: its rewards are equal, or nothing of it is trained.

    Turns of `Credit.batch_roles` are compared with those of other groups, so equal rewards do not count.
    """
    scorable, _ = scorable_groups([group], config, frozen)
    advantages = estimator_of(config.model_copy(update={"uniform_groups": "drop"}))(scorable)
    return not any(
        (turn_key(turn) in advantages or (turn.role in config.batch_roles and turn.reward is not None))
        and turn.policy not in frozen
        and config.trains(turn.role)
        for turn in scorable[0].turns
    )


def _is_trained(turn: Turn, config: Credit, frozen: Collection[str]) -> bool:
    return turn.reward is not None and turn.policy not in frozen and config.trains(turn.role)
