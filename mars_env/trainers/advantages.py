"""Advantages: how much better a turn did than those it is compared with. No torch in here.

All estimators leave out turns of unknown reward (None: a machinery fault), then groups with fewer than two
known rewards, then groups whose rewards are all equal.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mars_env.checks import require_integer
from mars_env.errors import ConfigError
from mars_env.types import Action, Completion, Group, Turn

TurnKey = tuple[str, str]
"""A turn's tree and id: unique in a batch of groups."""

Estimator = Callable[[Sequence[Group]], dict[TurnKey, float]]
"""From groups to advantages by turn. Turns that are left out are not trained."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AdvantageStats:
    """How many turns of a batch got an advantage (`kept`), and why the others did not.

    Attributes:
        unknown: Turns left out because their reward is None.
        small: Groups of fewer than two known rewards.
        uniform: Groups of more known rewards, all equal after whatever the estimator adds to them.
    """

    groups: int = 0
    turns: int = 0
    unknown: int = 0
    small: int = 0
    uniform: int = 0
    kept: int = 0


def turn_key(turn: Turn) -> TurnKey:
    """The key of a turn's advantage."""
    return turn.tree_id, turn.id


def group_normalised(
    groups: Sequence[Group], *, unbiased: bool = True, eps: float = 1e-6
) -> dict[TurnKey, float]:
    """``(r - mean) / (std + eps)`` within each group.

    Source: GRPO (arXiv 2402.03300, section 4.1.2). MarsRL (arXiv 2511.11373) has groups of outputs for one
    input, MARS2 (arXiv 2602.07848) all nodes of one tree. If `unbiased`, the std divides by n - 1, as
    OpenRLHF, TRL and verl do (the papers do not say), else by n. A ConfigError if a group id or a turn occurs
    twice.

    Example:
        >>> group = _example_group([1.0, 0.0, 0.0, None, 1.0])
        >>> {id: round(a, 3) for (_, id), a in group_normalised([group]).items()}
        {'0': 0.866, '1': -0.866, '2': -0.866, '4': 0.866}
    """
    ddof = 1 if unbiased else 0
    return _within_groups(groups, lambda r: (r - r.mean()) / (r.std(ddof=ddof) + eps))


def mean_centred(groups: Sequence[Group]) -> dict[TurnKey, float]:
    """``r - mean`` within each group, so that hard and easy problems weigh alike.

    Source: Dr. GRPO (arXiv 2503.20783, section 3.2).
    """
    return _within_groups(groups, lambda r: r - r.mean())


def leave_one_out(groups: Sequence[Group]) -> dict[TurnKey, float]:
    """``r - mean of the others``: each turn's baseline does not depend on the turn itself.

    Source: RLOO (arXiv 2402.14740, section 3.3).

    Example:
        >>> leave_one_out([_example_group([1.0, 0.0, 0.0, 0.0])])[("t", "0")]
        1.0
    """
    return _within_groups(groups, lambda r: r - (r.sum() - r) / (len(r) - 1))


def zeros_of(groups: Sequence[Group]) -> dict[TurnKey, float]:
    """The advantage 0 for every turn of known reward in a group of two or more of them."""
    comparable = (own for own in map(known_turns, groups) if len(own) >= 2)
    return {turn_key(turn): 0.0 for own in comparable for turn in own}


ESTIMATORS: Mapping[str, Estimator] = {
    "group_normalised": group_normalised,
    "mean_centred": mean_centred,
    "leave_one_out": leave_one_out,
}


def over_batch(groups: Sequence[Group], roles: Collection[str]) -> list[Group]:
    """The same turns, those of some roles compared over the whole batch: one group for each such role.

    For roles that act once on an input. Source: SPELL (arXiv 2509.23863) for its Questioner.

    Example:
        >>> batch = [_example_group([1.0], "g"), _example_group([0.0], "h")]
        >>> [(group.id, len(group.turns)) for group in over_batch(batch, ["solver"])]
        [('solver over the batch', 2)]
    """
    others: list[Group] = []
    pooled: dict[str, list[Turn]] = {}
    for group in groups:
        rest = tuple(turn for turn in group.turns if turn.role not in roles)
        for turn in group.turns:
            if turn.role in roles:
                pooled.setdefault(turn.role, []).append(turn)
        if rest or not group.turns:
            others.append(replace(group, turns=rest))
    # In the order of their keys, since a sum depends on its order in the last bits.
    return others + [
        Group(f"{role} over the batch", tuple(sorted(pooled[role], key=turn_key))) for role in sorted(pooled)
    ]


def advantage_stats(groups: Sequence[Group], advantages: Mapping[TurnKey, float]) -> AdvantageStats:
    """Count what was kept and what was dropped, and why.

    Example:
        >>> groups = [_example_group([1.0, 0.0, None], "mixed"), _example_group([1.0, 1.0], "uniform")]
        >>> advantage_stats(groups, group_normalised(groups))
        AdvantageStats(groups=2, turns=5, unknown=1, small=0, uniform=1, kept=2)
    """
    number = sum(len(group.turns) for group in groups)
    rewarded = [known_turns(group) for group in groups]
    compared = [turns for turns in rewarded if len(turns) >= 2]
    return AdvantageStats(
        groups=len(groups),
        turns=number,
        unknown=number - sum(map(len, rewarded)),
        small=len(rewarded) - len(compared),
        uniform=sum(not any(advantages.get(turn_key(turn)) for turn in turns) for turns in compared),
        kept=len(advantages),
    )


def known_turns(group: Group) -> tuple[Turn, ...]:
    """The turns of a group whose reward is known; a ConfigError if one is not a finite number."""
    for turn in group.turns:
        if turn.reward is not None and not np.isfinite(turn.reward):
            raise ConfigError(f"the reward {turn.reward!r} of turn {turn.id} of {turn.tree_id} is not finite")
    return tuple(turn for turn in group.turns if turn.reward is not None)


def overlong_penalty(length: int, max_length: int, buffer: int = 2048) -> float:
    """A penalty that grows linearly from 0 to -1 over the last `buffer` tokens before the limit.

    Source: DAPO (arXiv 2503.14476, section 3.4), with MARS2's numbers (arXiv 2602.07848):
    ``-min(excess, buffer) / buffer``, ``excess = length - (max_length - buffer)``.

    Example:
        >>> [overlong_penalty(n, max_length=100, buffer=20) for n in (80, 90, 100, 120)]
        [0.0, -0.5, -1.0, -1.0]
    """
    require_integer(buffer, "buffer")
    excess = max(0, length - (max_length - buffer))
    return -min(excess, buffer) / buffer if excess else 0.0


def penalise_overlong(groups: Sequence[Group], max_length: int, buffer: int = 2048) -> list[Group]:
    """The same groups with `overlong_penalty` of each turn's longest text added to its reward.

    A text is a completion, or a chain of them with calls of tools between; sampled tokens count.
    """

    def penalised(turn: Turn, reward: float) -> float:
        sizes = [sum(completion.sampled_tokens for completion in chain) for chain in turn.action.chains]
        return reward + overlong_penalty(max(sizes, default=0), max_length, buffer)

    return changed_rewards(groups, penalised)


def penalise_calls(groups: Sequence[Group], cost: float) -> list[Group]:
    """The same groups with a cost taken off each turn's reward for each of its calls of tools."""
    return changed_rewards(groups, lambda turn, reward: reward - cost * len(turn.action.calls))


def changed_rewards(groups: Sequence[Group], change: Callable[[Turn, float], float | None]) -> list[Group]:
    """The same groups, each known reward replaced by what a function of turn and reward gives."""

    def changed(turn: Turn) -> Turn:
        return turn if turn.reward is None else replace(turn, reward=change(turn, turn.reward))

    return [replace(group, turns=tuple(map(changed, group.turns))) for group in groups]


def _within_groups(groups: Sequence[Group], compare: Callable[[Floats], Floats]) -> dict[TurnKey, float]:
    _require_distinct(groups)
    advantages: dict[TurnKey, float] = {}
    for turns in map(known_turns, groups):
        # Equality, not std == 0: the rounded std of equal rewards need not be exactly zero.
        if len({turn.reward for turn in turns}) > 1:
            rewards = np.array([turn.reward for turn in turns], dtype=np.float64)
            advantages.update(zip(map(turn_key, turns), compare(rewards).tolist(), strict=True))
    return advantages


def _require_distinct(groups: Sequence[Group]) -> None:
    for id, number in Counter(group.id for group in groups).items():
        if number > 1:
            raise ConfigError(f"group {id!r} occurs twice in one batch: group ids must be unique in it")
    for (tree, turn), number in Counter(turn_key(turn) for group in groups for turn in group.turns).items():
        if number > 1:
            raise ConfigError(f"turn {turn} of tree {tree} occurs twice in a batch: it belongs to one group")


def _example_group(rewards: Mapping[str, float | None] | Sequence[float | None], id: str = "t") -> Group:
    """A group with these rewards by turn id, for the examples in docstrings; ids are paths in a tree."""
    named = rewards if isinstance(rewards, Mapping) else {str(i): r for i, r in enumerate(rewards)}
    completion = Completion("4", prompt_ids=(1, 2), token_ids=(3,), logprobs=(-0.5,))
    action = Action("4", (completion,))
    return Group(
        id,
        tuple(
            Turn(id, own, own.rpartition(".")[0] or None, id, "solver_0", "mars", "p", action, reward=reward)
            for own, reward in named.items()
        ),
    )
