"""Grade stored completions in bulk, from jsonl to jsonl, on all cores."""

import asyncio
import json
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from mars_env.errors import ConfigError, explained
from mars_env.files import atomic_draft, jsonl_rows, writing
from mars_env.grading import grader_for
from mars_env.sync import call_async, end_tasks, only_own_cancellation, run_sync
from mars_env.text import brief, describe_error
from mars_env.types import Grade, Grader, Problem


class _Row(BaseModel, hide_input_in_errors=True):
    problem_id: str = Field(coerce_numbers_to_str=True)
    completion: str


def grade_file(
    problems: Mapping[str, Problem],
    completions: Path,
    out: Path,
    *,
    grader: Grader | None = None,
    concurrency: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, int]:
    r"""Grade a file of completions; returns how many rows got each verdict.

    Args:
        problems: By id.
        completions: Rows ``{"problem_id": ..., "completion": ...}``, one JSON object per line.
        out: For rows ``{"problem_id", "verdict", "score", "reason", "seconds"}`` in the order of the input
            (with ``"backend"`` and ``"feedback"`` for code, and ``"details"`` for rubrics).
        grader: Judges every row; None uses the shared grader for each problem's kind.
        concurrency: How many rows are judged at once; None means four per CPU.
        on_progress: Called with the number of rows done and the total.

    Raises:
        ConfigError: A row cannot be read; the message gives file, line and field.
        StoreError: The verdicts cannot be written.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> row = {"problem_id": "p", "completion": "It is \\boxed{4}."}
        >>> _ = (folder / "c.jsonl").write_text(json.dumps(row) + "\n")
        >>> grade_file({"p": Problem("p", "2 + 2?", "4")}, folder / "c.jsonl", folder / "v.jsonl")
        {'CORRECT': 1}
    """
    if concurrency is not None and concurrency < 1:
        raise ConfigError(f"concurrency must be at least 1, got {concurrency}")
    completions, out = Path(completions), Path(out)
    total = sum(1 for _ in _read_rows(completions, problems))
    if on_progress is not None:
        on_progress(0, total)
    at_once = concurrency or 4 * (os.cpu_count() or 1)
    counts: Counter[str] = Counter()
    with writing(out), atomic_draft(out) as draft, draft.open("w", encoding="utf-8") as file:

        def write(problem: Problem, grade: Grade) -> None:
            counts[grade.verdict.value] += 1
            file.write(json.dumps(_verdict_row(problem, grade), allow_nan=False) + "\n")
            if on_progress is not None:
                on_progress(counts.total(), total)

        run_sync(_grade_rows(_read_rows(completions, problems), grader, at_once, write))
    return dict(counts)


def _read_rows(path: Path, problems: Mapping[str, Problem]) -> Iterator[tuple[Problem, str]]:
    with explained(ConfigError, "the completions", OSError):
        file = path.open("rb")
    with file:
        for place, values in jsonl_rows(path, file, ConfigError):
            with explained(ConfigError, place, ValidationError):
                row = _Row.model_validate(values)
            if row.problem_id not in problems:
                raise ConfigError(f"{place}: problem_id: there is no problem {brief(row.problem_id)}")
            yield problems[row.problem_id], row.completion


def _verdict_row(problem: Problem, grade: Grade) -> dict[str, Any]:
    row: dict[str, Any] = {
        "problem_id": problem.id,
        "verdict": grade.verdict.value,
        "score": grade.score,
        "reason": grade.reason,
        "seconds": round(grade.seconds, 6),
    }
    if problem.kind == "code":
        row |= {"backend": grade.backend, "feedback": grade.feedback}
    if grade.details:
        row |= {"backend": grade.backend, "details": dict(grade.details)}
    return row


def _written(grade: object) -> Grade:
    """What is written of a grader's answer: UNKNOWN, unless it is a `Grade` that a row can hold."""
    if not isinstance(grade, Grade):
        return Grade.unknown(f"the grader returned {brief(grade)}, not a Grade")
    try:
        json.dumps(dict(grade.details), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return Grade.unknown(f"the grade's details are not plain data: {describe_error(error)}")
    return grade


async def _grade_rows(
    rows: Iterator[tuple[Problem, str]],
    grader: Grader | None,
    at_once: int,
    write: Callable[[Problem, Grade], None],
) -> None:
    slots = asyncio.Semaphore(at_once)
    begun: deque[tuple[Problem, asyncio.Task[Grade]]] = deque()

    async def judge(problem: Problem, text: str) -> Grade:
        async with slots:
            try:
                with only_own_cancellation():
                    return _written(
                        await call_async((grader or grader_for(problem.kind)).grade, problem, text)
                    )
            except Exception as error:  # one poisoned problem costs one verdict, not all the others
                return Grade.unknown(f"the grader raised {describe_error(error)}")

    async def write_first() -> None:
        problem, task = begun[0]
        write(problem, await task)
        begun.popleft()

    try:
        for problem, text in rows:
            begun.append((problem, asyncio.create_task(judge(problem, text))))
            if len(begun) > 4 * at_once:
                await write_first()
        while begun:
            await write_first()
    finally:
        await end_tasks(task for _, task in begun)
