import asyncio

import pytest
from full_disk import full_disk
from rows import read_rows, write_rows

from mars_env.errors import ConfigError, StoreError
from mars_env.grading.bulk import grade_file
from mars_env.types import Grade, Problem

PROBLEMS = {"a": Problem("a", "?", "25"), "b": Problem("b", "?", r"\sqrt{8}"), "7": Problem("7", "?", "7")}


def test_rows_come_out_in_the_order_of_the_input(tmp_path):
    rows = []
    for k in range(60):
        rows.append({"problem_id": "a", "completion": rf"\boxed{{{25 + k % 2}}}"})
        rows.append({"problem_id": "b", "completion": rf"\boxed{{{2 + k % 3}\sqrt{{2}}}}"})
    rows.append({"problem_id": 7, "completion": "no"})
    seen = []
    out = tmp_path / "v.jsonl"
    counts = grade_file(
        PROBLEMS, write_rows(tmp_path / "c.jsonl", rows), out, on_progress=lambda *x: seen.append(x)
    )
    verdicts = read_rows(out)
    assert [v["problem_id"] for v in verdicts] == [str(row["problem_id"]) for row in rows]
    assert "".join(v["verdict"][0] for v in verdicts[:6]) == "CCWWCW"
    assert set(verdicts[0]) == {"problem_id", "verdict", "score", "reason", "seconds"}
    assert counts == {"CORRECT": 50, "WRONG": 71}
    assert seen[0] == (0, 121)
    assert seen[-1] == (121, 121)
    assert [p.name for p in tmp_path.iterdir() if "partial" in p.name] == []


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[1]",
        '{"completion": "x"}',
        '{"problem_id": "z", "completion": "x"}',
        '{"problem_id": "a", "completion": 5}',
        '{"problem_id": ["a"], "completion": "5"}',
    ],
)
def test_a_bad_row_is_named_before_anything_is_graded(tmp_path, line):
    path = tmp_path / "c.jsonl"
    path.write_text('{"problem_id": "a", "completion": "x"}\n' + line + "\n")
    with pytest.raises(ConfigError):
        grade_file(PROBLEMS, path, tmp_path / "v.jsonl")
    assert not (tmp_path / "v.jsonl").exists()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (Grade.unknown("it is lost"), "it is lost"),
        (KeyError("my bug"), "KeyError"),
        (asyncio.CancelledError(), "cancelled"),  # something that it waits for
        (None, "returned None, not a Grade"),
        (True, "returned True, not a Grade"),
        (Grade.correct(details={"seen": {1}}), "details are not plain data: TypeError"),
        (Grade.correct(details={"value": float("nan")}), "details are not plain data: ValueError"),
    ],
)
def test_what_a_grader_may_not_do_costs_one_verdict(tmp_path, given, reason):
    class Mine:
        async def grade(self, problem, text):
            if text != "bad":
                return Grade.correct()
            if isinstance(given, BaseException):
                raise given
            return given

    answers = [{"problem_id": "a", "completion": text} for text in ("25", "bad", "25")]
    rows = write_rows(tmp_path / "c.jsonl", answers)
    assert grade_file(PROBLEMS, rows, tmp_path / "v.jsonl", grader=Mine()) == {"CORRECT": 2, "UNKNOWN": 1}
    row = read_rows(tmp_path / "v.jsonl")[1]
    assert reason in row["reason"] and row["score"] is None


def test_a_full_disk_is_one_sentence(tmp_path):
    rows = write_rows(tmp_path / "c.jsonl", [{"problem_id": "a", "completion": ""}] * 400)
    with full_disk(20_000), pytest.raises(StoreError):
        grade_file(PROBLEMS, rows, tmp_path / "v.jsonl")
    assert not (tmp_path / "v.jsonl").exists()
