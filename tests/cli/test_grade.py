import json
from pathlib import Path

import command_line
import pytest

MBPP = Path(__file__).parents[2].parent / "shared" / "data" / "mbpp_sanitized.jsonl"


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_mathematics_in_the_order_of_the_input(tmp_path):
    problems = write(
        tmp_path / "p.jsonl",
        [{"id": "a", "problem": "?", "answer": "25"}, {"id": "b", "problem": "?", "answer": "\\frac{1}{2}"}],
    )
    answers = [
        ("b", "\\boxed{0.5}"),
        ("a", "\\boxed{26}"),
        ("b", "no idea, sorry about that"),
        ("a", "\\boxed{025}"),
    ]
    completions = write(tmp_path / "c.jsonl", [{"problem_id": p, "completion": text} for p, text in answers])
    said = command_line.said(
        "grade", "--problems", problems, "--completions", completions, "--out", tmp_path / "v.jsonl"
    )
    rows = read(tmp_path / "v.jsonl")
    assert [row["problem_id"] for row in rows] == ["b", "a", "b", "a"]
    assert [row["verdict"] for row in rows] == ["CORRECT", "WRONG", "WRONG", "CORRECT"]
    assert set(rows[0]) == {"problem_id", "verdict", "score", "reason", "seconds"}
    assert "2 CORRECT, 2 WRONG" in said


def test_code_of_all_forms(tmp_path):
    problems = write(
        tmp_path / "p.jsonl",
        [
            {"id": "s", "prompt": "Double it.", "mode": "stdin", "tests": [{"input": "2", "output": "4"}]},
            {
                "id": "f",
                "prompt": "Add.",
                "mode": "function_call",
                "fn_name": "add",
                "inputs": [[1, 2]],
                "outputs": [3],
            },
            {"id": "a", "prompt": "Add.", "entry_point": "add", "tests": ["assert add(1, 2) == 3"]},
        ],
    )
    programs = {
        "s": "print(2 * int(input()))",
        "f": "def add(a, b): return a + b",
        "a": "def add(a, b): return a - b",
    }
    completions = write(
        tmp_path / "c.jsonl",
        [{"problem_id": p, "completion": f"```python\n{x}\n```"} for p, x in programs.items()],
    )
    command_line.said(
        "grade", "--problems", problems, "--completions", completions, "--out", tmp_path / "v.jsonl"
    )
    rows = read(tmp_path / "v.jsonl")
    assert [row["verdict"] for row in rows] == ["CORRECT", "CORRECT", "WRONG"]
    assert all(row["backend"] for row in rows) and rows[2]["feedback"]


@pytest.mark.skipif(not MBPP.exists(), reason="the MBPP file is not part of the repository")
def test_every_reference_solution_of_mbpp_is_right(tmp_path):
    solutions = [
        {"problem_id": row["id"], "completion": f"```python\n{row['reference_solution']}\n```"}
        for row in read(MBPP)
    ]
    completions = write(tmp_path / "c.jsonl", solutions)
    said = command_line.said(
        "grade", "--problems", MBPP, "--completions", completions, "--out", tmp_path / "v.jsonl"
    )
    assert "427 CORRECT, written" in said


def test_an_unknown_problem_is_named_with_file_and_line(tmp_path):
    problems = write(tmp_path / "p.jsonl", [{"id": "a", "problem": "?", "answer": "25"}])
    completions = write(tmp_path / "c.jsonl", [{"problem_id": "z", "completion": "x"}])
    said = command_line.said(
        *["grade", "--problems", problems, "--completions", completions, "--out", tmp_path / "v.jsonl"],
        code=2,
    )
    assert "line 1" in said and "z" in said and "Traceback" not in said


def test_validation_finds_what_is_not_fit(tmp_path):
    rows = [
        {"id": "good", "prompt": "Twice x.", "entry_point": "twice", "tests": ["assert twice(5) == 10"],
         "solution": "def twice(x):\n    return 2 * x"},
        {"id": "bad", "prompt": "Twice x.", "entry_point": "twice", "tests": ["assert twice(5) == 11"],
         "solution": "def twice(x):\n    return 2 * x"},
    ]  # fmt: skip
    said = command_line.said("validate", write(tmp_path / "p.jsonl", rows), code=1)
    assert "bad:" in said and "good:" not in said and "1 of 2 problems are fit" in said
    assert "endless: say how many problems, --limit N" in command_line.said("validate", "nibbles", code=2)


def test_verdicts_that_cannot_be_written_are_one_sentence(tmp_path):
    problems = write(tmp_path / "p.jsonl", [{"id": "a", "problem": "2 + 2?", "answer": "4"}])
    completions = write(tmp_path / "c.jsonl", [{"problem_id": "a", "completion": "4"}])
    files = ("--problems", problems, "--completions", completions, "--out", tmp_path / "no" / "v.jsonl")
    said = command_line.said("grade", *files, code=2)
    assert "v.jsonlcannotbewritten" in "".join(said.split())  # wherever the path is broken into lines


def test_rubrics_of_the_problems_or_of_a_file(tmp_path):
    own = [{"text": "Says four.", "check": {"contains": "4"}}, {"text": "It is kind."}]
    problems = write(tmp_path / "p.jsonl", [{"id": "a", "problem": "2 + 2?", "rubric": own}])
    completions = write(
        tmp_path / "c.jsonl", [{"problem_id": "a", "completion": text} for text in ("It is 4.", "It is 5.")]
    )
    files = ("--problems", problems, "--completions", completions, "--out", tmp_path / "v.jsonl")
    judge = 'scripted:{"explanation": "e", "met": true}'
    said = command_line.said("grade", *files, "--rubric", "own", "--judge", judge, "--repeats", "3")
    rows = read(tmp_path / "v.jsonl")
    assert [row["score"] for row in rows] == [1.0, 0.5] and "1 CORRECT, 1 WRONG" in said
    assert rows[1]["details"]["votes"] == {"c1": [0.0], "c2": [1.0, 1.0, 1.0]}
    (tmp_path / "r.json").write_text(json.dumps(own[:1]))
    command_line.said("grade", *files, "--rubric", tmp_path / "r.json")
    assert [row["score"] for row in read(tmp_path / "v.jsonl")] == [1.0, 0.0]
