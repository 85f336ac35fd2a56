"""The advantage estimator that a configuration describes. No torch in here."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mars_env.trainers.advantages import (
    ESTIMATORS,
    Estimator,
    TurnKey,
    over_batch,
    penalise_overlong,
    turn_key,
    zeros_of,
)
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.tree_credit import tree_shaped
from mars_env.types import Group


def estimator_of(config: TrainConfig) -> Estimator:
    """Tree-shaped credit, overlong penalty and groups over the batch, if they are set; then the estimator.

    The order matters: credit compares what turns have achieved, and a parent's length must not affect its
    child's baseline. Turns of groups without a difference get the advantage 0, unless
    `TrainConfig.uniform_groups` drops them.

    Example:
        >>> from mars_env.trainers.config import TreeCredit
        >>> from mars_env.trainers.tree_credit import _example_tree
        >>> tree = _example_tree({"0": 1.0, "1": 0.0, "0.0": 0.0, "0.1": 0.0})
        >>> shaped = estimator_of(TrainConfig(advantage="mean_centred", tree_credit=TreeCredit()))
        >>> {id: advantage for (_, id), advantage in shaped([tree]).items()}
        {'0': 1.375, '1': -0.625, '0.0': -0.375, '0.1': -0.375}
    """

    def estimate(groups: Sequence[Group]) -> dict[TurnKey, float]:
        credit, overlong = config.tree_credit, config.overlong
        if credit is not None:
            groups = tree_shaped(groups, sibling_weight=credit.sibling_weight, strength=credit.strength)
        if overlong is not None:
            groups = penalise_overlong(groups, overlong.limit, overlong.buffer)
        if config.batch_roles:
            groups = over_batch(groups, config.batch_roles)
        found = ESTIMATORS[config.advantage](groups)
        return found if config.uniform_groups == "drop" else zeros_of(groups) | found

    return estimate


def teaches_nothing(config: TrainConfig, group: Group, frozen: Collection[str] = ()) -> bool:
    """Whether no turn of a group has a policy gradient: its rewards are equal, or nothing of it is trained.

    Turns of `TrainConfig.batch_roles` are compared with those of other groups, so of them equal rewards teach
    something, too.

    Args:
        config: Its advantages and trained roles.
        group: A whole group.
        frozen: Names of policies that are not trained.

    Example:
        >>> from mars_env.trainers.advantages import _example_group
        >>> [teaches_nothing(TrainConfig(), _example_group("g", [1.0, r])) for r in (1.0, 0.0)]
        [True, False]
    """
    differing = config.model_copy(update={"uniform_groups": "drop"})
    advantages, roles = estimator_of(differing)([group]), config.train_roles
    return not any(
        (turn_key(turn) in advantages or (turn.role in config.batch_roles and turn.reward is not None))
        and turn.policy not in frozen
        and (roles is None or turn.role in roles)
        for turn in group.turns
    )
