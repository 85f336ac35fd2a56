"""How old samples are, in versions of the policy that made them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mars_env.types import Group, Turn


def oldest_version(turns: Iterable[Turn]) -> int | None:
    """The oldest policy version that sampled a token of these turns; None if no completion says.

    Example:
        >>> from mars_env.types import Action, Completion
        >>> action = Action("42", (Completion("42", versions=((3, 1000), (4, 24))),))
        >>> oldest_version([Turn("p#0", "0", None, "p#0/0", "solver_0", "mars", "p", action)])
        3
    """
    versions = [
        version
        for turn in turns
        for completion in turn.action.completions
        for version, _ in completion.versions
    ]
    return min(versions, default=None)


def age(group: Group, current: Callable[[str], int | None]) -> int:
    """Versions between a group's oldest token and the policies that will be trained on it.

    Args:
        group: Its turns may have acted with several policies; the oldest counts.
        current: The present version of a policy, by name; None for one that is not trained.

    Returns:
        0 for a group of the present policy, and for a group without versions.

    Example:
        >>> from mars_env.types import Action, Completion
        >>> action = Action("42", (Completion("42", versions=((3, 1000), (4, 24))),))
        >>> turn = Turn("p#0", "0", None, "p#0/0", "solver_0", "mars", "p", action)
        >>> age(Group("p#0/0", (turn,)), {"mars": 5}.get)
        2
    """
    oldest = 0
    for turn in group.turns:
        now, then = current(turn.policy), oldest_version([turn])
        if now is not None and then is not None:
            oldest = max(oldest, now - then)
    return oldest
