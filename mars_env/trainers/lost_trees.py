"""Trees that faults have ended before a trained agent had acted, and a run in which no others come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mars_env.errors import ModelError
from mars_env.types import Tree, Turn


class LostTrees:
    """Counts them, and ends a run in which too many come in a row. A journal of the engine, for `pipeline`.

    One poisoned problem costs only its own trees. A model that is gone for good would otherwise cost all that
    follow, and the run would end as if they had been trained.

    Args:
        trained: Whether a turn may be trained on: its agent, role or policy is trained.
        step: Trees of one step; as many in a row end the run, but never one alone.

    Attributes:
        ids: The trees that were lost.

    Example:
        >>> from mars_env.types import Problem
        >>> lost = LostTrees(lambda turn: turn.role == "solver", 1)
        >>> def tree(id): return Tree(id, Problem("p", "2 + 2?", "4"), (), fault="the key has expired")
        >>> lost.note(tree("p#0"))
        >>> lost.note(tree("p#1"))
        Traceback (most recent call last):
        mars_env.errors.ModelError: 2 trees in a row could not be played, the last one because of: the key has expired
    """  # noqa: E501

    def __init__(self, trained: Callable[[Turn], bool], step: int) -> None:
        self.ids: set[str] = set()
        self._trained, self._most, self._in_a_row = trained, max(2, step), 0

    def note(self, tree: Tree) -> None:
        """Count a finished tree.

        Raises:
            ModelError: Too many were lost in a row.
        """
        if not tree.fault or any(map(self._trained, tree.turns)):
            self._in_a_row = 0
            return
        self.ids.add(tree.id)
        self._in_a_row += 1
        if self._in_a_row >= self._most:
            raise ModelError(
                f"{self._in_a_row} trees in a row could not be played, the last one because of: {tree.fault}"
            )

    def turns_of(self, tree_id: str) -> Mapping[str, Turn]:
        """None: nothing was played before."""
        return {}

    def write_turns(self, turns: Sequence[Turn]) -> None:
        """Nothing: only whole trees count."""

    def write_tree(self, tree: Tree, team_rewards: Mapping[str, float | None]) -> None:
        """The same as `note`."""
        self.note(tree)
