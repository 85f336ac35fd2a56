"""One poisoned problem costs its own verdicts; all others are graded."""

import math

import pytest
from rows import read_rows, write_rows

import mars_env
from mars_env.errors import ProblemError
from mars_env.grading.bulk import grade_file
from mars_env.grading.code.reference import check_tests
from mars_env.types import Problem


def nested(depth):
    return [nested(depth - 1)] if depth else 1


GOOD = {
    "form": "function_call", "fn_name": "f", "method": False, "prelude": False, "tolerance": None,
    "solutions": [], "time_limit": None, "memory_limit": None,
    "tests": [{"arguments": [1], "accept": [1], "public": False}],
}  # fmt: skip


LIMITS = ["Infinity", "NaN", "-1", '"x"', "true", '{"seconds": "x", "nanos": []}', "1e-300"]


@pytest.mark.parametrize("field", ["time_limit", "memory_limit_bytes"])
@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_that_cannot_hold_is_an_error(tmp_path, field, limit):
    file, tests = tmp_path / "p.jsonl", '[{"input": "1", "output": "1"}]'
    file.write_text(f'{{"id": "a", "prompt": "p", "mode": "stdin", "{field}": {limit}, "tests": {tests}}}\n')
    with pytest.raises(ProblemError) as caught:
        mars_env.load_problems(file)
    assert field in str(caught.value)


STDIN = {
    "form": "stdin", "exact": False, "tolerance": None, "checker": None, "prelude": False, "solutions": [],
    "time_limit": None, "memory_limit": None, "comparison": "words",
    "tests": [{"input": "1", "output": "1", "public": False}],
}  # fmt: skip
ASSERTS = {
    "form": "asserts", "entry_point": "f", "imports": [], "prompt": "", "prelude": False, "solutions": [],
    "time_limit": None, "memory_limit": None, "tests": [{"code": "assert f(1) == 1", "public": False}],
}  # fmt: skip
RIGHT = {
    "function_call": "def f(x):\n    return 1\n",
    "stdin": "print(1)\n",
    "asserts": "def f(x):\n    return 1\n",
}
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


@pytest.mark.parametrize("reference", [GOOD, STDIN, ASSERTS], ids=lambda reference: reference["form"])
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


@pytest.mark.parametrize("reference", [GOOD, STDIN], ids=lambda reference: reference["form"])
@pytest.mark.parametrize("tolerance", ["0.1 or so", math.nan, math.inf, -1, True, [1], 10**400])
def test_a_tolerance_that_is_no_number_is_refused(reference, tolerance):
    check_tests({**reference, "tolerance": 0.1})
    with pytest.raises(ProblemError):
        check_tests({**reference, "tolerance": tolerance})


DEEP = "[" * 900 + "]" * 900
UNFIT = {
    "deep metadata": f'{{"id": "a", "problem": "q", "answer": "2", "x": {DEEP}}}',
    "solutions": '{"id": "a", "prompt": "x", "mode": "stdin", "solutions": {"language": 3, "solution": 5}, '
    '"tests": [{"input": "1", "output": "1"}]}',
    "examples": '{"id": "a", "prompt": "x", "entry_point": "f", "examples": 5, '
    '"tests": "def check(c): pass"}',
    "arguments": '{"id": "a", "prompt": "x", "tests": [{"fn_name": "f", "input": 5}]}',
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_row_of_no_known_form_is_one_sentence_with_its_place(tmp_path, name):
    file = tmp_path / "p.jsonl"
    file.write_text(UNFIT[name] + "\n")
    with pytest.raises(ProblemError):
        mars_env.load_problems(file)
