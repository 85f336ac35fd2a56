"""How old samples are, in versions of the policy that made them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mars_env.types import Group, Turn

_acting: ContextVar[tuple[int | None, object]] = ContextVar("acting", default=(None, None))
"""How many updates the weights must have seen that act in this context, and of which run."""


def least_updates() -> int | None:
    """How many of this run's updates the weights must have seen that act in this context; None outside a run.

    The pipeline sets it for each group, so that no turn is too old when its update comes. Models in this
    process are always new enough; agents that reach a sampler elsewhere pass it on.
    """
    return _acting.get()[0]


def acting_run() -> object:
    """What stands for the run whose updates `least_updates` counts."""
    return _acting.get()[1]


@contextmanager
def acting_after(updates: int, run: object = None) -> Iterator[None]:
    """Set `least_updates` for the agents that act in this context."""
    token = _acting.set((updates, run))
    try:
        yield
    finally:
        _acting.reset(token)


def oldest_version(turns: Iterable[Turn]) -> int | None:
    """The oldest policy version that sampled a token of these turns; None if no completion says."""
    completions = (completion for turn in turns for completion in turn.action.completions)
    return min((version for completion in completions for version, _ in completion.versions), default=None)


def age(group: Group, current: Callable[[str], int | None]) -> int:
    """Versions between a group's oldest token and the policies that are trained on it; 0 without versions.

    `current` gives the present version of a policy by its name, None for one that is not trained.

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
