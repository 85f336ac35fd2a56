"""What is trained on, as plain records: for trainers that live elsewhere. No torch in here."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mars_env.errors import ConfigError
from mars_env.trainers.advantages import TurnKey, turn_key
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.estimators import estimator_of
from mars_env.types import Action, Completion, Group, Turn


@dataclass(frozen=True, slots=True)
class TurnSample:
    """One completion to train on, and all that a trainer needs to know of its turn.

    Attributes:
        tree: Id of the tree that it is from.
        turn: Id of its turn. A turn of several completions has several samples.
        group: Id of the group that its turn was compared in; groups may be of any size.
        agent: Who acted, e.g. ``"verifier_0"``.
        role: The same without its number.
        policy: Name of the weights that acted.
        prompt_ids: Token ids that the model read.
        completion_ids: Token ids that it sampled, the stop token included.
        logprobs: One for each of `completion_ids`, of the distribution that was sampled from.
        temperature: Of that distribution.
        versions: Policy versions that sampled, run-length: ``((version, number of tokens), ...)``.
        truncated: Whether this completion was cut off by its length limit.
        reward: The turn's own, as recorded: before credit along the tree and overlong penalty.
        score: What the grader gave the turn, in [0, 1]; None where it was not graded.
        advantage: The turn's.
    """

    tree: str
    turn: str
    group: str
    agent: str
    role: str
    policy: str
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    temperature: float
    versions: tuple[tuple[int, int], ...]
    truncated: bool
    reward: float
    score: float | None
    advantage: float


def turn_samples(groups: Sequence[Group], config: TrainConfig) -> list[TurnSample]:
    """The samples of some groups: what the local trainer would train on, with the same advantages.

    Turns of unknown reward, and groups in which a comparison says nothing, are left out
    (`mars_env.trainers.advantages`), and so are roles that are not trained. The order is that of the turns'
    keys, whatever the order of the groups.

    Args:
        groups: Whole groups; with `TrainConfig.tree_credit` whole trees.
        config: Its advantages, tree credit, overlong penalty and trained roles are used, and nothing else.

    Raises:
        ConfigError: A turn to be trained carries no token ids or log-probabilities, or was sampled greedily.

    Example:
        >>> [(s.turn, s.group, s.role, s.reward, s.advantage)
        ...  for s in turn_samples([_example_group()], TrainConfig(advantage="mean_centred"))]
        [('0', 'p#0/0', 'solver', 1.0, 0.5), ('2', 'p#0/0', 'solver', 0.0, -0.5)]
    """
    advantages = estimator_of(config)(groups)
    return [
        _sample(turn, completion, advantage)
        for turn, advantage in trained_turns(groups, advantages, config.train_roles)
        for completion in turn.action.completions
    ]


def trained_turns(
    groups: Sequence[Group],
    advantages: Mapping[TurnKey, float],
    roles: Collection[str] | None = None,
    policies: Collection[str] | None = None,
) -> Iterator[tuple[Turn, float]]:
    """The turns to train on with their advantages, in the order of their keys.

    Args:
        groups: Groups of turns.
        advantages: By `turn_key`; turns that it lacks are not trained.
        roles: Only turns of these roles are trained; None means all.
        policies: Names of the policies that there are; None means any.

    Raises:
        ConfigError: A turn to be trained acted with an unknown policy, or carries no token ids or
            log-probabilities, or was sampled greedily.

    Example:
        >>> advantages = {("p#0", "2"): 1.0, ("p#0", "0"): -1.0}
        >>> [turn.id for turn, _ in trained_turns([_example_group()], advantages)]
        ['0', '2']
    """
    turns = {turn_key(turn): turn for group in groups for turn in group.turns}
    for key in sorted(advantages.keys() & turns.keys()):
        turn = turns[key]
        if roles is None or turn.role in roles:
            _refuse_untrainable(turn, policies)
            yield turn, advantages[key]


def _refuse_untrainable(turn: Turn, policies: Collection[str] | None) -> None:
    where = f"turn {turn.id} of tree {turn.tree_id} ({turn.agent})"
    freeze = "or leave its role out of train_roles"
    if policies is not None and turn.policy not in policies:
        raise ConfigError(
            f"{where} acted with the policy {turn.policy!r}, but the trainer has "
            f"{', '.join(sorted(policies))}: add the policy, {freeze}"
        )
    if not turn.trainable:
        raise ConfigError(
            f"{where} carries no token ids and log-probabilities, so it cannot be trained on: "
            f"use a model that tells them (HFModel does), {freeze}"
        )
    for completion in turn.action.completions:
        if completion.temperature <= 0:
            raise ConfigError(
                f"{where} was sampled greedily (temperature 0): sample at one above 0, {freeze}"
            )


def _sample(turn: Turn, completion: Completion, advantage: float) -> TurnSample:
    if turn.reward is None:  # an estimator of the user's own may be at fault
        raise ConfigError(
            f"turn {turn.id} of tree {turn.tree_id} has an advantage, but its reward is unknown (None): "
            "an estimator leaves such turns out"
        )
    return TurnSample(
        tree=turn.tree_id,
        turn=turn.id,
        group=turn.group_id,
        agent=turn.agent,
        role=turn.role,
        policy=turn.policy,
        prompt_ids=completion.prompt_ids,
        completion_ids=completion.token_ids,
        logprobs=completion.logprobs,
        temperature=completion.temperature,
        versions=completion.versions,
        truncated=completion.finish_reason == "length",
        reward=turn.reward,
        score=None if turn.grade is None else turn.grade.score,
        advantage=advantage,
    )


def _example_group() -> Group:
    """A right, an unknown and a wrong answer, for the examples of this page."""
    completion = Completion("4", prompt_ids=(1, 2), token_ids=(3,), logprobs=(-0.5,))
    return Group(
        "p#0/0",
        tuple(
            Turn("p#0", str(i), None, "p#0/0", "solver_0", "mars", "p", Action("4", (completion,)), reward=r)
            for i, r in enumerate((1.0, None, 0.0))
        ),
    )
