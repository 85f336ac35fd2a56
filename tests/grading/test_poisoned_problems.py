"""One poisoned problem costs its own verdicts; all others are graded."""

import math

import pytest
from rows import read_rows, write_rows

from mars_env.errors import ProblemError
from mars_env.grading.bulk import grade_file
from mars_env.grading.code.reference import check_tests
from mars_env.problems.code import code_problem_from_row
from mars_env.types import Problem


def nested(depth):
    return [nested(depth - 1)] if depth else 1


RIGHT = {
    "function_call": "def f(x):\n    return 1\n",
    "stdin": "print(1)\n",
    "asserts": "def f(x):\n    return 1\n",
}
ROWS = (
    {"mode": "function_call", "fn_name": "f", "inputs": [[1]], "outputs": [1]},
    {"mode": "stdin", "tests": [{"input": "1", "output": "1"}]},
    {"entry_point": "f", "tests": ["assert f(1) == 1"]},
)
REFERENCES = [code_problem_from_row({"id": "p", "prompt": "?", **row}).reference for row in ROWS]
REFERENCES[1]["comparison"] = "words"
VALUES = [None, True, 5, -1, 1.5, math.nan, math.inf, "\ud800", "a\0b", [], [1], {}, {"a": 1}, 10**400]
OTHER_TASKS = {  # other tasks, which the right program of this one does not solve
    "function_call tests.arguments []", "stdin tests.output 'a\\x00b'",
}  # fmt: skip


def poisoned(reference):
    """A reference with each field of it, and of its test, missing or of another kind; and none at all."""
    yield from (("nothing", None), ("a list", [1]))
    test = reference["tests"][0]
    if "arguments" in test:
        yield "deep arguments", {**reference, "tests": [{**test, "arguments": [nested(400)]}]}
    for field in reference:
        yield f"without {field}", {key: value for key, value in reference.items() if key != field}
        for value in VALUES:
            yield f"{field} {value!r}", {**reference, field: value}
    for field in test:
        rest = {key: value for key, value in test.items() if key != field}
        yield f"without tests.{field}", {**reference, "tests": [rest]}
        for value in VALUES:
            yield f"tests.{field} {value!r}", {**reference, "tests": [{**test, field: value}]}


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference["form"])
def test_no_poison_in_a_reference_makes_a_right_program_wrong(tmp_path, reference):
    form = reference["form"]
    problems = {
        f"{form} {name}": Problem(f"{form} {name}", "?", each, "code") for name, each in poisoned(reference)
    }
    problems[form] = Problem(form, "?", reference, "code")
    rows = [{"problem_id": name, "completion": f"```python\n{RIGHT[form]}```"} for name in problems]
    grade_file(problems, write_rows(tmp_path / "c.jsonl", rows), tmp_path / "v.jsonl")
    verdicts = read_rows(tmp_path / "v.jsonl")
    assert [row["problem_id"] for row in verdicts] == list(problems)
    assert {row["problem_id"] for row in verdicts if row["verdict"] == "WRONG"} <= OTHER_TASKS
    unknown = [row for row in verdicts if row["verdict"] == "UNKNOWN"]
    assert len(unknown) > 50 and verdicts[-1]["verdict"] == "CORRECT"
    for row in unknown:
        assert row["score"] is None and row["reason"].startswith("the problem's ")


@pytest.mark.parametrize("reference", REFERENCES[:2], ids=lambda reference: reference["form"])
@pytest.mark.parametrize("tolerance", ["0.1 or so", math.nan, math.inf, -1, True, [1], 10**400])
def test_a_tolerance_that_is_no_number_is_refused(reference, tolerance):
    check_tests({**reference, "tolerance": 0.1})
    with pytest.raises(ProblemError):
        check_tests({**reference, "tolerance": tolerance})
