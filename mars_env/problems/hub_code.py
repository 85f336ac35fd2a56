"""The real sets of code problems; names, columns and counts are as the hub's data cards state them."""

import ast
import contextlib
import datetime
import doctest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mars_env.errors import ConfigError, ProblemError, explained
from mars_env.problems.code import called_function, code_problem_from_row
from mars_env.problems.files import file_rows
from mars_env.problems.hub import HubSet, hub_set
from mars_env.problems.problem_set import ProblemSet
from mars_env.problems.rows import BadField, Row, Untestable, required_text
from mars_env.types import Problem


def human_eval_row(row: Row) -> Row:
    """HumanEval: the examples in the prompt are the public tests, if they are expressions and true."""
    prompt = required_text(row, "prompt")
    try:
        # The quotes that close the docstring are not part of the last example's output.
        bare = "\n".join("" if line.strip() in ('"""', "'''") else line for line in prompt.split("\n"))
        examples = doctest.DocTestParser().get_examples(bare)
    except ValueError:  # the prompt only looks like an interactive session
        examples = []
    tests = [_assertion(example.source, example.want) for example in examples]
    hidden, name = _results(str(row.get("test") or ""), "candidate"), str(row.get("entry_point") or "")

    def is_true(test: str) -> bool:
        return all(hidden.get(call, value) == value for call, value in _results(test, name).items())

    return {**row, "examples": [test for test in tests if test and is_true(test)]}


_UNREADABLE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)  # errors of `ast`


def _assertion(source: str, want: str) -> str:
    """The assertion that an expression has a value, without their comments; empty if they are none."""
    try:
        left, right = (ast.parse(text.strip(), mode="eval").body for text in (source, want))
        return ast.unparse(ast.Assert(ast.Compare(left, [ast.Eq()], [right])))
    except _UNREADABLE:
        return ""


def _results(tests: str, function: str) -> dict[str, Any]:
    cases = {}
    try:
        for node in ast.walk(ast.parse(tests)):
            match node:
                case ast.Compare(ast.Call(ast.Name(name)) as call, [ast.Eq()], [value]) if name == function:
                    with contextlib.suppress(*_UNREADABLE):
                        cases[ast.unparse(call).removeprefix(function)] = ast.literal_eval(value)
    except _UNREADABLE:
        pass
    return cases


def mbpp_row(row: Row) -> Row:
    """MBPP (sanitized) and MBPP+: the first assert is public and shown: it also tells the function's name."""
    tests = row.get("test_list", row.get("tests"))
    if not isinstance(tests, (list, tuple)) or not tests or not isinstance(tests[0], str):
        raise BadField("test_list", "must be a list of asserts")
    field_name = "prompt" if row.get("prompt") else "text"
    statement = f"{required_text(row, field_name)}\n\nIt must pass this test:\n{tests[0]}"
    problem_id = str(row.get("id") or f"mbpp/{required_text(row, 'task_id')}")
    fields = ("code", "reference_solution", "test_imports", "test_setup_code", "test")
    called = {"entry_point": row.get("entry_point") or called_function(row)}
    task = {"id": problem_id, "prompt": statement, "test_list": list(tests), "public_tests": 1}
    return {**{key: row[key] for key in fields if key in row}, **task, **called}


def _apps_row(row: Row) -> Row:
    """APPS and TACO, where some rows have no tests. A problem's name is a title here: two may share it."""
    if not row.get("input_output"):
        raise Untestable("input_output", "is empty: the row has no tests")
    fields = {key: value for key, value in row.items() if key not in ("picture_num", "memory_limit")}
    return {"title" if key == "name" else key: value for key, value in fields.items()}


def _code_set(name: str, prepare: Callable[[Row], Row]) -> HubSet:
    def convert(row: Row, index: int, split: str) -> Problem:
        return code_problem_from_row(prepare(row), default_id=f"{name}/{split}/{index}", source=name)

    return hub_set(name, convert)


_LIVE_CODE_BENCH = _code_set("livecodebench", dict)


def live_code_bench(
    *,
    seed: int = 0,
    split: str | None = None,
    release: str = "v6",
    start: str | datetime.date | None = None,
    end: str | datetime.date | None = None,
    source: str | Path | None = None,
) -> ProblemSet:
    """LiveCodeBench's code generation, by release and by the contests' dates.

    A release, ``"v1"`` to ``"v6"``, includes the earlier ones. `start` and `end` are the first and the last
    date of a contest, such as ``"2024-08-01"``. The only split is ``"test"``, and the seed has no effect. A
    `source` is a local jsonl file, or a folder with the repository's files under their names. A `ConfigError`
    for an unknown split, release or date; a `ProblemError` if it cannot be downloaded, or a row is bad.
    """
    if split not in (None, "test"):
        raise ConfigError(f"the problem set 'livecodebench' has no split {split!r}, only: test")
    if release not in _LIVE_CODE_BENCH.splits:
        raise ConfigError(f"livecodebench has the releases v1 to v6, not {release!r}")
    first, last = _date(start, datetime.date.min), _date(end, datetime.date.max)
    if source is None:
        rows = _LIVE_CODE_BENCH.download(release)
    elif Path(source).is_dir():
        files: Any = _LIVE_CODE_BENCH.splits[release]
        rows = (row for name in files for row in file_rows(Path(source) / name))
    else:
        rows = file_rows(Path(source))
    # Filtered before they are converted, because unpacking private tests is most of the work.
    inside = ((place, row) for place, row in rows if first <= _day_of(row, place) <= last)
    window = "" if start is None and end is None else f" {start or ''}..{end or ''}"
    return _LIVE_CODE_BENCH.problem_set(inside, release + window, source)


def _day_of(row: Row, place: str) -> datetime.date:
    """The day of a row's contest; long ago if it has none."""
    with explained(ProblemError, f"{place}: field 'contest_date'", ConfigError):
        return _date(str(row.get("contest_date") or "")[:10], datetime.date.min)


def _date(text: str | datetime.date | None, default: datetime.date) -> datetime.date:
    if not text:
        return default
    try:
        return datetime.date.fromisoformat(str(text)[:10] if isinstance(text, datetime.date) else text)
    except ValueError as error:
        raise ConfigError(f"a date must look like 2024-08-31, not {text!r}") from error


_PREPARED = {"humaneval": human_eval_row, "mbpp": mbpp_row, "apps": _apps_row, "taco": _apps_row}
_PLAIN = ("codecontests", "deepcoder")
CODE_SETS = {name: _code_set(name, _PREPARED.get(name, dict)) for name in (*_PREPARED, *_PLAIN)}
