import json
from pathlib import Path

import command_line
import pytest
from rows import read_rows, write_rows

MBPP = Path(__file__).parents[2].parent / "shared" / "data" / "mbpp_sanitized.jsonl"


def graded(folder, problems, completions, *options, code=0):
    """What `mars-env grade` says, and the verdicts that it writes; a set may be rows or a file of them."""
    if isinstance(problems, list):
        problems = write_rows(folder / "p.jsonl", problems)
    rows = [{"problem_id": problem, "completion": text} for problem, text in completions]
    given = ["--problems", problems, "--completions", write_rows(folder / "c.jsonl", rows)]
    options = options or ("--out", folder / "v.jsonl")
    said = command_line.said("grade", *given, *options, code=code)
    return said, read_rows(folder / "v.jsonl") if code == 0 else None


def test_mathematics_in_the_order_of_the_input(tmp_path):
    problems = [
        {"id": "a", "problem": "?", "answer": "25"},
        {"id": "b", "problem": "?", "answer": "\\frac{1}{2}"},
    ]
    answers = [
        ("b", "\\boxed{0.5}"),
        ("a", "\\boxed{26}"),
        ("b", "no idea, sorry about that"),
        ("a", "\\boxed{025}"),
    ]
    said, rows = graded(tmp_path, problems, answers)
    assert [row["problem_id"] for row in rows] == ["b", "a", "b", "a"]
    assert [row["verdict"] for row in rows] == ["CORRECT", "WRONG", "WRONG", "CORRECT"]
    assert set(rows[0]) == {"problem_id", "verdict", "score", "reason", "seconds"}
    assert "2 CORRECT, 2 WRONG" in said


def fenced(programs):
    return [(problem, f"```python\n{program}\n```") for problem, program in programs]


def test_code_of_all_forms(tmp_path):
    add = {"mode": "function_call", "fn_name": "add", "inputs": [[1, 2]], "outputs": [3]}
    problems = [
        {"id": "s", "prompt": "Double it.", "mode": "stdin", "tests": [{"input": "2", "output": "4"}]},
        {"id": "f", "prompt": "Add.", **add},
        {"id": "a", "prompt": "Add.", "entry_point": "add", "tests": ["assert add(1, 2) == 3"]},
    ]
    programs = [
        ("s", "print(2 * int(input()))"),
        ("f", "def add(a, b): return a + b"),
        ("a", "def add(a, b): return a - b"),
    ]
    _, rows = graded(tmp_path, problems, fenced(programs))
    assert [row["verdict"] for row in rows] == ["CORRECT", "CORRECT", "WRONG"]
    assert all(row["backend"] for row in rows) and rows[2]["feedback"]


@pytest.mark.skipif(not MBPP.exists(), reason="the MBPP file is not part of the repository")
def test_every_reference_solution_of_mbpp_is_right(tmp_path):
    said, _ = graded(
        tmp_path, MBPP, fenced((row["id"], row["reference_solution"]) for row in read_rows(MBPP))
    )
    assert "427 CORRECT, written" in said


SUM = {"id": "a", "problem": "2 + 2?", "answer": "4"}


def test_validation_finds_what_is_not_fit(tmp_path):
    rows = [
        {"id": "good", "prompt": "Twice x.", "entry_point": "twice", "tests": ["assert twice(5) == 10"],
         "solution": "def twice(x):\n    return 2 * x"},
        {"id": "bad", "prompt": "Twice x.", "entry_point": "twice", "tests": ["assert twice(5) == 11"],
         "solution": "def twice(x):\n    return 2 * x"},
    ]  # fmt: skip
    said = command_line.said("validate", write_rows(tmp_path / "p.jsonl", rows), code=1)
    assert "bad:" in said and "good:" not in said and "1 of 2 problems are fit" in said
    assert "endless: say how many problems, --limit N" in command_line.said("validate", "aime", code=2)


def test_rubrics_of_the_problems_or_of_a_file(tmp_path):
    own = [{"text": "Says four.", "check": {"contains": "4"}}, {"text": "It is kind."}]
    given = [{"id": "a", "problem": "2 + 2?", "rubric": own}], [("a", "It is 4."), ("a", "It is 5.")]
    out = ["--out", tmp_path / "v.jsonl", "--rubric"]
    judge = 'scripted:{"explanation": "e", "met": true}'
    said, rows = graded(tmp_path, *given, *out, "own", "--judge", judge, "--repeats", "3")
    assert [row["score"] for row in rows] == [1.0, 0.5] and "1 CORRECT, 1 WRONG" in said
    assert rows[1]["details"]["votes"] == {"c1": [0.0], "c2": [1.0, 1.0, 1.0]}
    (tmp_path / "r.json").write_text(json.dumps(own[:1]))
    _, rows = graded(tmp_path, *given, *out, tmp_path / "r.json")
    assert [row["score"] for row in rows] == [1.0, 0.0]
