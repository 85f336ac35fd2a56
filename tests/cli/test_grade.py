from pathlib import Path

import pytest
from rows import read_rows, write_rows

MBPP = Path(__file__).parents[2].parent / "shared" / "data" / "mbpp_sanitized.jsonl"


@pytest.fixture
def graded(call):
    """What `mars-env grade` says, and the verdicts that it writes; a set may be rows or a file of them."""

    def graded(problems, completions, *options):
        if isinstance(problems, list):
            problems = write_rows(Path("p.jsonl"), problems)
        rows = [{"problem_id": problem, "completion": text} for problem, text in completions]
        files = ["--problems", problems, "--completions", write_rows(Path("c.jsonl"), rows)]
        said, status = call("grade", *files, "--out", "v.jsonl", *options)
        assert status == 0, said
        return said, read_rows(Path("v.jsonl"))

    return graded


def fenced(programs):
    return [(problem, f"```python\n{program}\n```") for problem, program in programs]


def test_mathematics_and_code_of_all_forms(graded):
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
    said, rows = graded(problems, fenced(programs))
    assert [row["verdict"] for row in rows] == ["CORRECT", "CORRECT", "WRONG"]
    assert all(row["backend"] for row in rows) and rows[2]["feedback"]
    assert "2 CORRECT, 1 WRONG" in said
    _, [row] = graded([{"id": "m", "problem": "?", "answer": "25"}], [("m", "\\boxed{025}")])
    assert row["verdict"] == "CORRECT"


@pytest.mark.skipif(not MBPP.exists(), reason="the MBPP file is not part of the repository")
def test_every_reference_solution_of_mbpp_is_right(graded):
    said, _ = graded(MBPP, fenced((row["id"], row["reference_solution"]) for row in read_rows(MBPP)))
    assert "427 CORRECT, written" in said


def test_validation_finds_what_is_not_fit(call):
    solution = {"prompt": "Twice x.", "entry_point": "twice", "solution": "def twice(x):\n    return 2 * x"}
    rows = [
        {"id": name, "tests": [f"assert twice(5) == {value}"], **solution}
        for name, value in (("good", 10), ("bad", 11))
    ]
    said, status = call("validate", write_rows(Path("p.jsonl"), rows))
    assert status == 1 and "bad:" in said and "good:" not in said and "1 of 2 problems are fit" in said
    assert "endless: say how many problems, --limit N" in " ".join(call("validate", "aime")[0].split())
