"""Rows of every form become the same kind of problem; bad rows are refused by place and field."""

import base64
import datetime
import json
import pickle
import zlib
from pathlib import Path

import pytest
from hub_rows import CODE
from hypothesis import given
from hypothesis import strategies as st
from rows import read_rows

from mars_env import load_problems
from mars_env.errors import ConfigError, ProblemError
from mars_env.problems.code import code_problem_from_row, is_code_row
from mars_env.problems.hub_code import human_eval_row, live_code_bench, mbpp_row
from mars_env.problems.packed import unpack
from mars_env.problems.rows import BadField, Untestable

LCB_STDIN, LCB_CALL = CODE["livecodebench, stdin"], CODE["livecodebench, call"]
HUMAN_EVAL, MBPP, CODE_CONTESTS = CODE["humaneval"], CODE["mbpp"], CODE["codecontests"]
APPS, APPS_CALL, DEEP_CODER = CODE["apps"], CODE["apps, call"], CODE["deepcoder"]
ECHO = [{"input": "a", "output": "a", "public": True}]
OURS_STDIN = {"id": "s", "prompt": "Echo.", "mode": "stdin", "tests": ECHO}
OURS_CALL = {
    "id": "c", "prompt": "Add.", "mode": "function_call", "fn_name": "add", "inputs": [[1, 2]],
    "outputs": [[3]], "starter_code": "class Solution:\n    def add(self, a, b):\n",
}  # fmt: skip
CHECK = "def check(candidate):\n    assert candidate(1)"
OURS_CHECK = {"id": "k", "prompt": "def f(x):\n", "entry_point": "f", "tests": CHECK}


@pytest.mark.parametrize(
    ("row", "form", "tests", "public", "comparison"),
    [
        (LCB_STDIN, "stdin", 2, 1, "stripped"),
        (LCB_CALL, "function_call", 2, 1, None),
        (HUMAN_EVAL, "asserts", 1, 0, None),
        (human_eval_row(HUMAN_EVAL), "asserts", 2, 1, None),
        (MBPP, "asserts", 2, 0, None),
        (APPS, "stdin", 2, 0, None),
        (APPS_CALL, "function_call", 1, 0, None),
        (CODE_CONTESTS, "stdin", 2, 1, "words"),
        (DEEP_CODER, "stdin", 1, 0, "stripped"),
        ({"problem": "Echo.", "tests": '{"inputs": ["1"], "outputs": ["1"]}'}, "stdin", 1, 0, "stripped"),
        (CODE["deepcoder, taco"], "function_call", 1, 0, "stripped"),
        (CODE["deepcoder, livecodebench"], "function_call", 1, 0, None),
        (OURS_STDIN, "stdin", 1, 1, None),
        (OURS_CALL, "function_call", 1, 0, None),
        (OURS_CHECK, "asserts", 1, 0, None),
    ],
)
def test_forms(row, form, tests, public, comparison):
    assert is_code_row(row)
    problem = code_problem_from_row(row, default_id="x")
    assert problem.kind == "code" and problem.reference["form"] == form
    assert problem.reference.get("comparison") == comparison, "as the set's own grader compares"
    assert len(problem.reference["tests"]) == tests
    assert problem.metadata["public_tests"] == public == sum(t["public"] for t in problem.reference["tests"])
    assert json.loads(json.dumps(problem.reference)) == problem.reference, "the reference is plain data"


def test_nothing_private_is_in_statement_or_metadata():
    for row in (LCB_STDIN, LCB_CALL, MBPP, APPS, APPS_CALL, CODE_CONTESTS, DEEP_CODER, OURS_CALL):
        problem = code_problem_from_row({**row, "solution": "SECRET"}, default_id="x")
        seen = problem.statement + json.dumps(dict(problem.metadata), default=str)
        for word in ("SECRET", "outputs", "private_test_cases", "solutions", "test_list"):
            assert word not in seen, (word, seen)
        assert not {"tests", "inputs", "outputs", "code", "solutions"} & set(problem.metadata)


def test_the_many_asserts_of_mbpp_plus_count():
    more = "inputs = [[1, 2]]\nresults = [3]\nfor i, o in zip(inputs, results):\n    assert add(*i) == o"
    row = {**MBPP, "test": more}
    for problem in (code_problem_from_row(row), code_problem_from_row(mbpp_row(row))):
        assert [test["code"] for test in problem.reference["tests"]] == [*MBPP["test_list"], more]


@pytest.mark.parametrize(
    ("name", "statement", "is_named"),
    [
        ("add", "Write a function to add.", False),
        ("add", "Padding `add_all` and add(s) nothing: add.", True),
        ("sum", "The sum (of two) is called sum_of.", False),
        ("add", "Complete it.\ndef add(a, b):", True),
        ("add", "Return what `add` should.", True),
        ("twoSum", "Write twoSum.", True),
    ],
)
def test_a_statement_tells_the_function_s_name(name, statement, is_named):
    for row in ({**OURS_CALL, "starter_code": "", "fn_name": name}, {**MBPP, "entry_point": name}):
        made = code_problem_from_row({**row, "prompt": statement}).statement
        assert made == (statement if is_named else f"{statement}\n\nName the function `{name}`.")


def test_integer_keys_of_a_first_argument_are_noted_where_the_set_s_own_grader_makes_them():
    given = {"fn_name": "f", "inputs": [[{"1": 2}, 5]], "outputs": [[3]]}
    listed = [{"fn_name": "f", "input": [{"-1": 2}], "output": 3}]
    for row in ({**APPS, "input_output": json.dumps(given)}, {**DEEP_CODER, "tests": json.dumps(listed)}):
        problem = code_problem_from_row(row, default_id="x")
        assert problem.reference["integer_keys"] is True
        assert json.loads(json.dumps(problem.reference)) == problem.reference
    mixed = {**given, "inputs": [[{"1": 2, "a": 3}]]}
    second = {**given, "inputs": [[5, {"1": 2}], [{}], []], "outputs": [1] * 3}
    rows = [{**APPS, "input_output": json.dumps(other)} for other in (mixed, second)]
    for row in (*rows, {**OURS_CALL, "inputs": [[{"1": 2}, 5]]}):
        assert "integer_keys" not in code_problem_from_row(row, default_id="x").reference


ROWS = {"": {}, **CODE, "ours, stdin": OURS_STDIN, "ours, call": OURS_CALL, "ours, check": OURS_CHECK}


@pytest.mark.parametrize("bad", read_rows(Path(__file__).with_name("bad_code_rows.jsonl")), ids=str)
def test_bad_rows(bad):
    with pytest.raises(BadField) as caught:
        code_problem_from_row({**ROWS[bad["of"]], **bad["change"]})
    assert caught.value.field == bad["field"], caught.value


class Bomb:
    def __reduce__(self):
        return (print, ("exploded",))


def test_examples_of_human_eval_are_true_and_compare_what_they_show():
    median = CODE["humaneval, median"]
    assert human_eval_row(median)["examples"] == [
        "assert f([3, 1, 2]) == 2",
        "assert round(f([1]), 2) == -0.5",
        "assert (f([5]) == 5) == True",
        "assert f([6, 5]) == 5.5",
    ]
    for test in ("", "def check(", "(" * 10_000, "\0"):
        assert "assert f([-10, 4]) == 15.0" in human_eval_row({**median, "test": test})["examples"]


def test_only_plain_data_is_unpickled(capsys):
    for value in (Bomb(), print, pickle.Unpickler, {1: Bomb()}):
        data = base64.b64encode(zlib.compress(pickle.dumps(value))).decode()
        with pytest.raises(BadField):
            unpack(data, "tests")
    assert capsys.readouterr().out == ""
    cut, room = zlib.compress(pickle.dumps("0" * 100))[:-8], zlib.compress(b"Nr\xff\xff\xff\x7f.")
    for bomb in (cut, room, zlib.compress(b"\x80\x05\x96\xff\xff\xff\xff\x07\0\0\0.")):
        with pytest.raises(BadField):
            unpack(base64.b64encode(bomb).decode(), "tests")


@given(st.binary(max_size=80))
def test_any_pickle(data):
    text = base64.b64encode(zlib.compress(data)).decode()
    try:
        unpack(text, "tests")
    except BadField:
        return


@pytest.mark.parametrize("name", ["apps", "taco", "deepcoder"])
def test_rows_of_real_sets_without_tests_are_left_out_and_counted(name, tmp_path):
    field = "tests" if name == "deepcoder" else "input_output"
    good = {**CODE[name], "name": "Sum"}
    many_digits = json.dumps({"inputs": ["1"], "outputs": ["1"]})[:-1] + ', "n": ' + "1" * 5000 + "}"
    none, texts = {"inputs": [], "outputs": []}, {"fn_name": "f", "inputs": ["N = 5"], "outputs": ["5"]}
    if name == "deepcoder":
        none, texts = [], [{"fn_name": "f", "input": "N = 5", "output": "5"}]
    invalid = (json.dumps(none), many_digits, json.dumps(texts))
    bad = [{**good, "problem_id": 1, field: text} for text in invalid]
    rows = [*bad, good, {**good, "problem_id": 2}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    problems = load_problems(name, source=tmp_path / "rows.jsonl")
    assert len({problem.id for problem in problems}) == 2 and problems[0].metadata["source"] == name
    assert problems.notes == "3 rows without tests that can be used left out"
    for row in bad:
        with pytest.raises(Untestable):
            code_problem_from_row(row, default_id="x")
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, [good, {**good, field: "{"}])))
    with pytest.raises(ProblemError):
        load_problems(name, source=tmp_path / "rows.jsonl")


def test_live_code_bench_by_release_and_date(tmp_path):
    (tmp_path / "test.jsonl").write_text(json.dumps(LCB_CALL))
    (tmp_path / "test2.jsonl").write_text(json.dumps(LCB_STDIN))
    assert [p.id for p in live_code_bench(source=tmp_path, release="v1")] == ["3001"]
    assert [p.id for p in live_code_bench(source=tmp_path, release="v2")] == ["3001", "abc301_a"]
    late = live_code_bench(source=tmp_path, release="v2", start="2024-09-01", end=datetime.date(2024, 9, 1))
    assert [p.id for p in late] == ["abc301_a"] and "2024-09-01..2024-09-01" in late.revision
    assert late[0].metadata["contest_date"].startswith("2024-09-01")
    for wrong in ({"release": "v7"}, {"release": "v2", "start": "August"}, {"split": "train"}):
        with pytest.raises(ConfigError):
            live_code_bench(source=tmp_path, **wrong)
    with pytest.raises(ProblemError):
        live_code_bench(source=tmp_path, release="v3")
    (tmp_path / "test.jsonl").write_text(json.dumps({**LCB_STDIN, "contest_date": "09/01/2024"}))
    with pytest.raises(ProblemError):
        live_code_bench(source=tmp_path / "test.jsonl")
