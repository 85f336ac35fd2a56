"""The groups within which advantages are computed, and the trees of a training step."""

from collections.abc import Iterable

import numpy as np

from mars_env.problems import ProblemSet
from mars_env.rollout.engine import Job
from mars_env.seeds import derive_seed
from mars_env.types import Group, Tree, Turn


def groups_of(trees: Iterable[Tree]) -> list[Group]:
    """The groups of some trees, in the order in which they first appear."""
    groups: dict[str, list[Turn]] = {}
    for tree in trees:
        for turn in tree.turns:
            groups.setdefault(turn.group_id, []).append(turn)
    return [Group(id, tuple(turns)) for id, turns in groups.items()]


def is_uniform(group: Group) -> bool:
    """Whether all known rewards of a group are equal, or none is known: no turn is better than another."""
    return len({turn.reward for turn in group.turns if turn.reward is not None}) < 2


def step_jobs(
    problems: ProblemSet, *, step: int, problems_per_step: int, seed: int, progress: float | None = None
) -> list[Job]:
    """The trees of one training step. Its problems depend only on (seed, step); no problem is drawn twice.

    Example:
        >>> from mars_env.types import Problem
        >>> problems = ProblemSet("sums", [Problem(f"p{i}", f"{i} + {i}?", str(2 * i)) for i in range(9)])
        >>> [job.sample for job in step_jobs(problems, step=3, problems_per_step=2, seed=0)]
        [3, 3]
    """
    rng = np.random.default_rng(derive_seed(seed, "problems of step", step))
    return [Job(problem, step, progress) for problem in problems.sample(rng, problems_per_step)]
