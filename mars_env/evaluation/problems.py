"""Whether two runs were played on the same problems, and which problems a run found easy."""

import json
from collections.abc import Iterable, Sequence

from mars_env.errors import ConfigError
from mars_env.evaluation.trees import known_verdicts
from mars_env.grading.rubrics.rubric import RUBRIC
from mars_env.problems import ProblemSet
from mars_env.text import brief
from mars_env.types import Tree


def _contents(trees: Sequence[Tree]) -> dict[str, str]:
    """By problem id what makes a problem the same problem: kind, statement, reference and rubric."""
    problems = {tree.problem.id: tree.problem for tree in trees}
    parts = {key: [p.kind, p.statement, p.reference, p.metadata.get(RUBRIC)] for key, p in problems.items()}
    return {key: json.dumps(value, sort_keys=True, default=str) for key, value in parts.items()}


def require_same_problems(a: Sequence[Tree], b: Sequence[Tree], names: tuple[str, str] = ("A", "B")) -> None:
    """Raise ConfigError, naming what differs, unless two runs were played on exactly the same problems."""
    left, right = _contents(a), _contents(b)
    alone = zip(names, (left.keys() - right.keys(), right.keys() - left.keys()), strict=True)
    only = [f"{len(keys)} only in {name}, {_some(keys)}" for name, keys in alone if keys]
    if only:
        raise ConfigError(f"{names[0]} and {names[1]} must be runs of the same problems: {'; '.join(only)}")
    changed = {key for key in left if left[key] != right[key]}
    if changed:
        which = f"{len(changed)} problems of the same id, {_some(changed)}"
        raise ConfigError(f"{which}, have another statement or reference in {names[1]} than in {names[0]}")


def _some(keys: set[str]) -> str:
    first = sorted(keys)[:3]
    return f"such as {', '.join(map(brief, first))}"


def drop_solved(problems: ProblemSet, trees: Iterable[Tree]) -> ProblemSet:
    """The problems that are solved in less than half of the tries: the others teach little.

    A try is a graded turn of known verdict. A problem without one is left out, too. PromptCoT 2.0 (arXiv
    2509.19894) does it with 8 tries.

    Example:
        >>> from mars_env.types import Action, Grade, Problem, Turn
        >>> def tried(id, *right):
        ...     grades = [Grade.correct() if r else Grade.wrong("no") for r in right]
        ...     turns = [Turn(f"{id}#0", str(i), None, "", "solver_0", "", id, Action(""), grade)
        ...              for i, grade in enumerate(grades)]
        ...     return Tree(f"{id}#0", Problem(id, "?"), tuple(turns))
        >>> problems = ProblemSet("mine", [Problem(id, "?", "1") for id in "abc"])
        >>> [p.id for p in drop_solved(problems, [tried("a", 1, 0), tried("b", 1, 0, 0)])]
        ['b']
    """
    verdicts: dict[str, list[bool]] = {}
    for tree in trees:
        verdicts.setdefault(tree.problem.id, []).extend(known_verdicts(tree.turns))
    hard = {id for id, right in verdicts.items() if right and 2 * sum(right) < len(right)}
    return problems.filter(lambda problem: problem.id in hard)
