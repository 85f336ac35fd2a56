"""Tree-shaped credit: a node's reward relative to those of its parent and its siblings. No torch in here."""

from collections import defaultdict
from collections.abc import Sequence
from typing import cast

from mars_env.errors import ConfigError
from mars_env.trainers.advantages import TurnKey, changed_rewards, known_turns, turn_key
from mars_env.types import Group, Turn


def tree_shaped(
    groups: Sequence[Group], *, sibling_weight: float = 0.5, strength: float = 0.5
) -> list[Group]:
    """The same groups, with every known reward r replaced by ``r + strength (r - b)``.

    The baseline of a node is ``b = (1 - w) r(parent) + w mean(r(siblings without the node))``, of raw rewards
    and `sibling_weight` w. Without siblings it is ``r(parent)``; for a child of the root, which has no
    reward, it is the siblings' mean; with neither, the reward stays as it is. Nothing is compared with an
    unknown reward (our rule; the papers have none).

    Source: MARS2's public code, where it has no effect since parents are never recorded (arXiv 2602.07848);
    "tree-consistent reward shaping" in arXiv 2604.14564. Both coefficients are 0.5 there.

    Raises:
        ConfigError: A turn's parent is in none of the groups: they must be whole trees.

    Example:
        >>> from mars_env.trainers.advantages import _example_group
        >>> [tree] = tree_shaped([_example_group({"0": 1.0, "1": 0.0, "0.0": 1.0, "0.1": 0.0})])
        >>> {turn.id: turn.reward for turn in tree.turns}
        {'0': 1.5, '1': -0.5, '0.0': 1.25, '0.1': -0.5}
    """
    if not 0.0 <= sibling_weight <= 1.0:
        raise ConfigError(f"sibling_weight must be in [0, 1], got {sibling_weight}")
    raw: dict[TurnKey, float | None] = {turn_key(t): t.reward for group in groups for t in group.turns}
    siblings: defaultdict[tuple[str, str | None], dict[str, float]] = defaultdict(dict)  # by their parent
    for group in groups:
        for turn in group.turns:
            if turn.parent_id is not None and (turn.tree_id, turn.parent_id) not in raw:
                raise ConfigError(  # else it would be taken for a child of the root
                    f"turn {turn.id} of tree {turn.tree_id} has the parent {turn.parent_id}, which is in no "
                    "group: tree-shaped credit needs whole trees"
                )
        for turn in known_turns(group):
            siblings[turn.tree_id, turn.parent_id][turn.id] = cast(float, turn.reward)

    def shaped(turn: Turn, reward: float) -> float:
        # Differences first, then averages: if all rewards are equal, the result is exactly zero.
        others = siblings[turn.tree_id, turn.parent_id].items()
        gaps = [reward - r for id, r in others if id != turn.id]
        to_siblings = sum(gaps) / len(gaps) if gaps else None
        parent = None if turn.parent_id is None else raw[turn.tree_id, turn.parent_id]
        to_parent = None if parent is None else reward - parent
        if to_parent is None or to_siblings is None:
            gap = (to_siblings if to_parent is None else to_parent) or 0.0
        else:
            gap = (1 - sibling_weight) * to_parent + sibling_weight * to_siblings
        return reward + strength * gap

    return changed_rewards(groups, shaped)
