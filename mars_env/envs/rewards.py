"""Rewards: pure functions of the stored tree, one for each role, none shared (MarsRL, training)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from mars_env.checks import finite
from mars_env.text import brief
from mars_env.types import Problem, Reward, Tree, Turn, Verdict

REWARD_FAULT = "reward_fault"
"""Key of a turn's info: why its reward function gave no reward."""

REWARD_FAULTS = "reward_faults"
"""Key of a tree's info: why the team reward gave none, by turn id."""


def outcome(turn: Turn, path: Sequence[Turn], problem: Problem) -> float | None:
    """The score of the turn's own grade: ``1[answer equals reference]`` (Solver, Corrector)."""
    return None if turn.grade is None else turn.grade.score


def judged_turn(path: Sequence[Turn]) -> Turn | None:
    """The solution that a Verifier or Corrector works on: the last graded turn of the path."""
    return next((turn for turn in reversed(path) if turn.grade is not None), None)


def agreement(turn: Turn, path: Sequence[Turn], problem: Problem) -> float | None:
    """``1[verdict agrees with the correctness of the solution it judged]`` (Verifier); None if UNKNOWN."""
    judged = judged_turn(path)
    if judged is None or judged.grade is None or judged.grade.verdict is Verdict.UNKNOWN:
        return None
    if turn.info.get("malformed"):  # it agrees with nothing
        return 0.0
    expected = "Correct" if judged.grade.verdict is Verdict.CORRECT else "Wrong"
    return float(turn.info.get("verdict") == expected)


MARSRL_REWARDS: Mapping[str, Reward] = MappingProxyType(
    {"solver": outcome, "verifier": agreement, "corrector": outcome}
)
"""The step rewards of MarsRL by role. A role that is not named gets its own `outcome`."""


def team_outcome(tree: Tree) -> Mapping[str, float | None]:
    """One reward for the whole team, which MarsRL argues against: by turn id, the outcome that it led to.

    Where the tree branches below a turn, that is the mean over the branches; where the chain ends with it,
    the grade of the current solution: its own, or, for a Verifier, that of the solution it judged.
    """
    return outcomes_below(tree.turns)


def outcomes_below(turns: Iterable[Turn]) -> dict[str, float | None]:
    """`team_outcome` of the turns of one tree."""
    by_id: dict[str | None, Turn] = {turn.id: turn for turn in turns}
    below: defaultdict[str | None, list[float | None]] = defaultdict(list)
    rewards: dict[str, float | None] = {}
    for turn in sorted(by_id.values(), key=lambda turn: -turn.id.count(".")):  # leaves first
        if turn.id in below:
            numbers = [reward for reward in below[turn.id] if reward is not None]
            rewards[turn.id] = sum(numbers) / len(numbers) if numbers else None
        else:
            current: Turn | None = turn
            while current is not None and current.grade is None:
                current = by_id.get(current.parent_id)
            rewards[turn.id] = current.grade.score if current is not None and current.grade else None
        below[turn.parent_id].append(rewards[turn.id])
    return rewards


def checked_team_rewards(answer: object, tree: Tree) -> tuple[dict[str, float | None], dict[str, str]]:
    """A team reward's answer as rewards, and why one is missing, by turn id; else a ValueError."""
    if not isinstance(answer, Mapping):
        raise ValueError(f"it gave {brief(answer)} where rewards by turn id were asked for")
    turn_ids = {turn.id for turn in tree.turns}
    if strange := next((turn_id for turn_id in answer if turn_id not in turn_ids), None):
        raise ValueError(f"it names the turn {brief(strange)}, which the tree does not have")
    rewards: dict[str, float | None] = {}
    faults: dict[str, str] = {}
    for turn_id, reward in answer.items():
        try:
            rewards[turn_id] = None if reward is None else finite(reward)
        except ValueError as error:
            rewards[turn_id], faults[turn_id] = None, f"the team reward is invalid: {error}"
    return rewards, faults


def with_rewards(tree: Tree, rewards: Mapping[str, float | None]) -> Tree:
    """The tree with some rewards replaced, by turn id; each turn says why its reward is missing, if it is."""
    if not rewards:
        return tree
    faults = tree.info.get(REWARD_FAULTS, {})
    turns = tuple(
        with_reward(t, rewards[t.id], faults.get(t.id, "")) if t.id in rewards else t for t in tree.turns
    )
    return replace(tree, turns=turns)


def with_reward(turn: Turn, reward: float | None, fault: str = "") -> Turn:
    """The turn with another reward, and why it has none, if its function failed."""
    if not fault and REWARD_FAULT not in turn.info:
        return replace(turn, reward=reward)
    info = {key: value for key, value in turn.info.items() if key != REWARD_FAULT}
    return replace(turn, reward=reward, info={**info, REWARD_FAULT: fault} if fault else info)
