"""`load_set`: the one way to load any problem set."""

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mars_env.checks import require_integer
from mars_env.errors import ConfigError, ProblemError
from mars_env.problems.code import is_code_row, load_code_file
from mars_env.problems.files import SUFFIXES, file_rows, load_file
from mars_env.problems.problem_set import ProblemSet
from mars_env.problems.registry import Loader, find_loader, is_module_name, list_problem_sets
from mars_env.problems.written import PROVENANCE
from mars_env.text import brief
from mars_env.types import Problem

Check = Callable[[Problem], str | None]
"""Says why a problem's reference cannot be used; None if it can."""


def load_set(
    name_or_path: str | Path,
    *,
    n: int | None = None,
    seed: int = 0,
    split: str | None = None,
    fields: Mapping[str, str | None] | None = None,
    check: Check | None = None,
    **options: Any,
) -> ProblemSet:
    """Load a set by name, from a file, or from your own module.

    Args:
        name_or_path: A known name (``"aime"``, ``"aime25"``, see `list_problem_sets`); a ``.jsonl`` or
            ``.parquet`` file or a folder of them, of mathematics or of code (the first row decides); or
            ``"my_module:name"``.
        n: Load only the first n problems.
        seed: For generated sets; the others have a fixed order.
        split: ``"train"`` or ``"test"`` of a generated set; a real set's own split; None takes the default.
        fields: For files: which field is ``id``, ``problem`` and ``answer``, if the names differ.
        check: Called on every problem that is not generated here; a reason that it returns rejects the set.
        options: Options of the set: ``source=`` (a local copy) for the real sets, ``level=``, ``topic=`` and
            ``template=`` for ``aime``, ``min_terms=`` and ``max_terms=`` for ``arithmetic``,
            ``licence=`` for files.

    Raises:
        ConfigError: There is no such set, split or option, or the set has fewer than n problems.
        ProblemError: A problem cannot be used; the message gives file, line and field.
        MissingExtra: The set needs a library that is not installed.

    Example:
        >>> problems = load_set("aime", n=100, level=[4, 5])
        >>> len(problems), problems[0] == load_set("aime", level=[4, 5])[0]
        (100, True)
    """
    if not isinstance(name_or_path, str | Path):
        raise ConfigError(f"a set's name or a file is loaded; make(problems=) takes {brief(name_or_path)}")
    name = str(name_or_path)
    if is_path(name_or_path):
        if split is not None:
            raise ConfigError(f"the file {name} has no splits: use load_problems({name!r}).split(...)")
        path = Path(name)
        first = next(file_rows(path), ("", {}))[1] if fields is None else {}
        if is_code_row(first) and "answer" not in first:
            problems = _call(name, load_code_file, path=path, **options)
        else:
            problems = _call(name, load_file, path=path, fields=fields, **options)
    elif fields is not None:
        raise ConfigError(f"fields is only for files; {name!r} is a set with its own columns")
    else:
        problems = _call(name, find_loader(name), seed=seed, split=split, **options)
    if n is not None:
        n = require_integer(n, "n")
        if n > len(problems):
            raise ConfigError(f"the problem set {name!r} has {len(problems)} problems: cannot take n={n}")
        problems = problems[:n]
    if check is not None and (is_path(name_or_path) or not problems.generated):
        check_references(problems, check)
    return problems


def check_references(problems: ProblemSet, check: Check) -> None:
    """Raise a `ProblemError` for the first reference that cannot be used, and say where it was read.

    A made problem whose reference is not known (None) is fine: nothing grades its answers.
    """
    for problem in problems:
        if problem.reference is None and PROVENANCE in problem.metadata:
            continue
        reason = check(problem)
        if reason is not None:
            place = problems.place(problem.id)
            raise ProblemError(f"{place}: field {problems.reference_field!r} {reason}")


def _call(name: str, loader: Loader, /, **options: Any) -> ProblemSet:
    signature = inspect.signature(loader)
    try:
        signature.bind(**options)
    except TypeError as error:
        takes = ", ".join(["n", *(option for option in signature.parameters if option != "path")])
        raise ConfigError(f"problem set {name!r}: {error}; its options are: {takes}") from error
    problems: Any = loader(**options)
    if not isinstance(problems, ProblemSet):
        raise ConfigError(
            f"the loader of the set {name!r} returns a ProblemSet, not {type(problems).__name__}"
        )
    return problems


def is_path(name_or_path: str | Path) -> bool:
    """Whether `load_problems` takes it for a file or folder: a set's name is none, whatever lies here."""
    if isinstance(name_or_path, Path):
        return True
    if name_or_path in list_problem_sets() or is_module_name(name_or_path):
        return False
    path = Path(name_or_path)
    return path.suffix in SUFFIXES or len(path.parts) > 1 or os.path.exists(name_or_path)  # noqa: PTH110 (a path's own raises for a name that is too long)
