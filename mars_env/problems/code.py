r"""Code problems from rows of LiveCodeBench, APPS, TACO, CodeContests, DeepCoder, HumanEval, MBPP, our form.

The reference of a code problem is plain data, in one format for all of them:

- ``form``: ``"stdin"``, ``"function_call"`` or ``"asserts"``.
- ``tests``: each with ``public`` and, by form: ``input`` and ``output`` texts; ``arguments`` (a list) and
  ``accept`` (the values that are right); ``code`` (Python text) and ``check`` (whether it defines
  ``check(candidate)``, to be called).
- ``stdin``: ``exact``, ``tolerance``, ``checker`` (source of a program that decides), and ``comparison``
  where a set's own grader compares outputs in another way (see `mars_env.grading.code.compare`).
- ``function_call``: ``fn_name``, ``method`` (of a class ``Solution``), ``tolerance``, and ``integer_keys``
  where a first argument had integers as keys, which JSON has made strings.
- ``asserts``: ``entry_point``, ``prompt`` (the start of the program, if it is one), ``imports``.
- ``prelude``: whether well-known names are imported for the program, as LeetCode and LiveCodeBench do.
- ``time_limit`` (CPU seconds for one test) and ``memory_limit`` (bytes), if the row states them.
- ``solutions``: reference solutions, to check the problem itself.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from mars_env.problems.files import file_rows
from mars_env.problems.packed import unpack
from mars_env.problems.problem_set import ProblemSet
from mars_env.problems.rows import BadField, Row, Untestable, json_value, read_problems, required_text
from mars_env.types import Problem

TIME_LIMITS = (0.01, 3600.0)  # in seconds; other limits of real sets are ignored
MEMORY_LIMITS = (4 << 20, 1 << 40)  # in bytes
_MAX_SOLUTIONS = 3

T = TypeVar("T", int, float)


def is_code_row(row: Row) -> bool:
    """Whether a row is a code problem."""
    return not _FORMS.isdisjoint(row)


def load_code_file(path: str | Path, *, licence: str = "unknown") -> ProblemSet:
    """A set from a jsonl or parquet file, or a folder of them, with rows for `code_problem_from_row`.

    A `ProblemError` for a bad row gives file, line and field.
    """
    path = Path(path)
    of = partial(code_problem_from_row, source=path.stem, licence=licence)
    listed, _ = read_problems(
        file_rows(path), lambda row, index: of(row, default_id=f"{path.stem}/{index}"), path
    )
    return ProblemSet(path.name, listed, licence=licence, reference_field="tests")


def code_problem_from_row(
    row: Row, *, default_id: str | None = None, source: str = "", licence: str = "unknown"
) -> Problem:
    """A code problem from a row of any form that `docs/code-grading.md` lists.

    Raises:
        BadField: A field is missing or cannot be used; a `ValueError`. `Untestable`: there are no tests.

    Example:
        >>> row = {"id": "twice", "prompt": "Return twice x.", "mode": "function_call", "fn_name": "twice",
        ...        "inputs": [[2], [5]], "outputs": [4, 10]}
        >>> code_problem_from_row(row).reference["tests"][1]["accept"]
        [10]
    """
    reference = _reference(row)
    if not reference["tests"]:
        raise Untestable("tests", "contains no test")
    if row.get("checker") and reference["form"] != "stdin":
        raise BadField("checker", "is only for problems of standard input: nothing would run it here")
    left_out = _PRIVATE.union(("id", *_STATEMENTS))
    metadata = {
        **{"source": source, "licence": licence},
        **{str(key): json_value(value) for key, value in row.items() if key not in left_out},
        **{"form": reference["form"], "public_tests": sum(test["public"] for test in reference["tests"])},
    }
    return Problem(_id(row, default_id), _statement(row, reference), reference, "code", metadata)


_FORMS = {
    *("mode", "entry_point", "tests", "test_list", "input_output", "private_tests"),
    *("private_test_cases", "public_test_cases"),
}
_PRIVATE = {
    *("tests", "test", "test_list", "test_setup_code", "challenge_test_list", "test_imports", "checker"),
    *("input_output", "inputs", "outputs", "public_tests", "private_tests", "generated_tests"),
    *("public_test_cases", "private_test_cases"),
    *("solutions", "solution", "reference_solution", "canonical_solution", "code", "incorrect_solutions"),
}
_IDS = ("id", "task_id", "question_id", "problem_id", "name")
_STATEMENTS = ("prompt", "problem", "question", "description", "question_content", "text")


def _id(row: Row, default: str | None) -> str:
    for field in _IDS:
        if row.get(field) not in (None, ""):
            return required_text(row, field)
    if default is None:
        raise BadField("id", "is missing")
    return default


def _statement(row: Row, reference: Mapping[str, Any]) -> str:
    field = next((name for name in _STATEMENTS if row.get(name)), "prompt")
    if not isinstance(row.get(field), str) or not row[field].strip():
        raise BadField(field, "must be a non-empty text")
    text: str = row[field]
    if row.get("starter_code"):
        text = (
            f"{text.rstrip()}\n\nStart from this code:\n\n```python\n{str(row['starter_code']).rstrip()}\n```"
        )
    else:
        name = reference.get("fn_name") or reference.get("entry_point") or ""
        if name and not _names(text, name):
            text = f"{text.rstrip()}\n\nName the function `{name}`."
    return text


def _names(text: str, name: str) -> bool:
    if not name.isalpha() or not name.islower():
        return name in text
    before, after = r"(?:[`'\"]|\b(?:function|method|named|called|def|class) +)", r"[`'\"(]"
    return re.search(rf"{before}{name}\b|(?<!\w){name}{after}", text) is not None


def _reference(row: Row) -> dict[str, Any]:
    limits = {
        "time_limit": _limit(row, "time_limit", *TIME_LIMITS),
        "memory_limit": _limit(row, "memory_limit_bytes", *MEMORY_LIMITS),
    }
    common = {"prelude": False, **limits, "solutions": _solutions(row)}
    if "public_test_cases" in row or "private_test_cases" in row:
        return {**common, **_live_code_bench(row)}
    if "private_tests" in row and isinstance(row["private_tests"], Mapping):
        return {**common, **_code_contests(row)}
    if "input_output" in row:
        return {**common, **_inputs_and_outputs(_json(row, "input_output"), row, "input_output")}
    return {**common, **(_tests(row) if row.get("mode") is None else _tests_of_mode(row, row["mode"]))}


def _tests_of_mode(row: Row, mode: Any) -> dict[str, Any]:
    if mode == "function_call":
        return _inputs_and_outputs(row, row, "inputs")
    if mode == "stdin":
        return _stdin(row, _list(row.get("tests"), "tests"))
    raise BadField("mode", f"must be 'stdin' or 'function_call', not {mode!r}")


def _tests(row: Row) -> dict[str, Any]:
    tests = row.get("tests")
    if "test_list" in row or "entry_point" in row or _is_assert_list(tests):
        return _asserts(row)
    if isinstance(tests, str):
        tests = _json(row, "tests")
    if isinstance(tests, Mapping):  # DeepCoder's rows from TACO
        return {**_inputs_and_outputs(tests, row, "tests"), "comparison": "stripped"}
    if isinstance(tests, Sequence):
        return _listed(row, list(tests))
    raise BadField("tests", "is missing: the row is not a code problem in a known form")


def _public(row: Row) -> int:
    return row["public_tests"] if isinstance(row.get("public_tests"), int) else 0


def _stdin(row: Row, tests: list[Any]) -> dict[str, Any]:
    public, converted = _public(row), []
    for index, test in enumerate(tests):
        if not isinstance(test, Mapping) or "input" not in test or "output" not in test:
            raise BadField("tests", f"[{index}] must have 'input' and 'output'")
        is_public = _flag(test, "public", index < public)
        texts = {key: _text_lines(test[key], f"tests[{index}].{key}") for key in ("input", "output")}
        converted.append({**texts, "public": is_public})
    how = {"exact": _flag(row, "exact", False), "tolerance": _tolerance(row)}
    return {"form": "stdin", "tests": converted, **how, "checker": row.get("checker") or None}


def _flag(row: Row, field: str, default: bool) -> bool:
    """True or false (or 1 or 0); a string such as "false" would count as true."""
    value = row.get(field)
    if value not in (None, True, False):
        raise BadField(field, f"must be true or false, not {value!r}")
    return default if value is None else bool(value)


def _text_lines(value: Any, field: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, (str, int, float)) for line in value):
        return "\n".join(map(str, value))
    raise BadField(field, "must be a string")


def _inputs_and_outputs(data: Any, row: Row, field: str) -> dict[str, Any]:
    """APPS and TACO (``{"inputs", "outputs", "fn_name"?}``), and function calls in our own form."""
    if not isinstance(data, Mapping):
        raise BadField(field, "must contain 'inputs' and 'outputs'")
    inputs, outputs = _list(data.get("inputs"), "inputs"), _list(data.get("outputs"), "outputs")
    if len(inputs) != len(outputs):
        raise BadField("outputs", f"has {len(outputs)} entries for {len(inputs)} inputs")
    name = data.get("fn_name")
    if not name:
        if row.get("mode") == "function_call":
            raise BadField("fn_name", "is missing")
        pairs = [{"input": i, "output": o} for i, o in zip(inputs, outputs, strict=True)]
        return {**_stdin(row, pairs), "prelude": True}
    ours, name = row.get("mode") == "function_call", str(name).strip()
    if not name.isidentifier():
        raise Untestable("fn_name", f"must be the name of a function, not {name!r}")
    starter = str(row.get("starter_code") or "")
    tests = [
        _case(_parsed(arguments), output, f"[{index}]", unwrap=not ours, public=index < _public(row))
        for index, (arguments, output) in enumerate(zip(inputs, outputs, strict=True))
    ]
    method = "class Solution" in starter
    form = _function_call(name, tests, method or (not ours and not starter), method or not ours)
    return {**form, "tolerance": _tolerance(row), **({} if ours else _integer_keys(tests))}


def _integer_keys(tests: list[dict[str, Any]]) -> dict[str, bool]:
    """APPS' own grader makes the keys of a first argument integers again; noted only where there are any."""
    has_integer_keys = any(with_integer_keys(test["arguments"]) != test["arguments"] for test in tests)
    return {"integer_keys": True} if has_integer_keys else {}


def with_integer_keys(arguments: list[Any]) -> list[Any]:
    """Arguments whose first one has integers as keys, if it is a mapping and each of its keys is one."""
    first = arguments[0] if arguments else None
    if not isinstance(first, dict) or not all(_INTEGER.fullmatch(str(key)) for key in first):
        return arguments
    return [{int(key): value for key, value in first.items()}, *arguments[1:]]


_INTEGER = re.compile(r"-?[0-9]{1,300}")


def _parsed(value: Any) -> Any:
    """Arguments from JSON texts, one per line. Rows of real sets with others (``N = 5``) are left out."""
    if not isinstance(value, str):
        return value
    try:
        return [json.loads(line) for line in value.split("\n") if line.strip()]
    except (ValueError, RecursionError) as error:
        raise Untestable("inputs", f"has arguments that are not JSON ({error})") from error


def _live_code_bench(row: Row) -> dict[str, Any]:
    public = _test_cases(row.get("public_test_cases") or "[]", "public_test_cases")
    private = _test_cases(row.get("private_test_cases") or "[]", "private_test_cases")
    cases = [(test, True) for test in public] + [(test, False) for test in private]
    return _typed_cases(row, cases, _json(row, "metadata"))


def _typed_cases(row: Row, marked: list[tuple[Any, bool]], details: Any) -> dict[str, Any]:
    functional = {isinstance(t, Mapping) and t.get("testtype") == "functional" for t, _ in marked}
    if functional == {True}:
        name = details.get("func_name") if isinstance(details, Mapping) else None
        if not name:
            raise BadField("metadata", "names no 'func_name' for tests that call a function")
        cases = [
            {"arguments": _parsed(_field(t, "input")), "accept": [_json(t, "output")], "public": public}
            for t, public in marked
        ]
        return _function_call(str(name), cases)
    if True in functional:
        raise BadField("private_test_cases", "mixes functions and standard input")
    pairs = [
        {"input": _field(t, "input"), "output": _field(t, "output"), "public": public} for t, public in marked
    ]
    return {**_stdin(row, pairs), "prelude": True, "comparison": "stripped"}


def _field(test: Any, name: str) -> str:
    if not isinstance(test, Mapping) or not isinstance(test.get(name), str):
        raise BadField("tests", f"a test has no text {name!r}")
    text: str = test[name]
    return text


def _test_cases(value: Any, field: str) -> list[Any]:
    """Tests as a list, as JSON, or as base64 of zlib of a pickle of JSON."""
    if isinstance(value, str) and not value.lstrip().startswith("["):
        value = unpack(value, field)
    return _list(_loads(value, field) if isinstance(value, str) else value, field)


def _code_contests(row: Row) -> dict[str, Any]:
    pairs: list[dict[str, Any]] = []
    for field, public in (("public_tests", True), ("private_tests", False), ("generated_tests", False)):
        tests = row.get(field) or {}
        if not isinstance(tests, Mapping):
            raise BadField(field, "must contain 'input' and 'output'")
        inputs, outputs = _list(tests.get("input", []), field), _list(tests.get("output", []), field)
        if len(inputs) != len(outputs):
            raise BadField(field, f"has {len(outputs)} outputs for {len(inputs)} inputs")
        pairs += [{"input": i, "output": o, "public": public} for i, o in zip(inputs, outputs, strict=True)]
    return {**_stdin(row, pairs), "comparison": "words"}


def _asserts(row: Row) -> dict[str, Any]:
    tests = row.get("tests", row.get("test_list", row.get("test")))
    imports = row.get("test_imports") or []
    setup = str(row.get("test_setup_code") or "")
    imports = [imports] if isinstance(imports, str) else [str(line) for line in imports]
    entry_point = str(row.get("entry_point") or "") or called_function(row)
    form = {"form": "asserts", "entry_point": entry_point, "imports": [*imports, *([setup] if setup else [])]}
    if isinstance(tests, str):
        if "def check(" not in tests:
            raise BadField("tests", "must define check(candidate), or be a list of asserts")
        if not entry_point:
            raise BadField("entry_point", "is missing")
        prompt = row.get("prompt")
        begins = isinstance(prompt, str) and f"def {entry_point}" in prompt
        examples = [{"code": text, "public": True} for text in _list(row.get("examples") or [], "examples")]
        converted = [*examples, {"code": tests, "public": False, "check": True}]
        return {**form, "tests": converted, "prompt": prompt if begins else ""}
    texts = _list(tests, "tests")
    more = row.get("test")
    if "tests" not in row and isinstance(more, str) and more.strip():
        texts.append(more)  # MBPP+: the asserts of MBPP, and a text with many more
    for index, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise BadField("tests", f"[{index}] must be Python text")
    converted = [{"code": text, "public": index < _public(row)} for index, text in enumerate(texts)]
    return {**form, "tests": converted, "prompt": ""}


def called_function(row: Row) -> str:
    """The function that a row's first assert calls: the first name in it that a solution defines, if any."""
    tests = row.get("test_list", row.get("tests"))
    if not isinstance(tests, (list, tuple)) or not _is_assert_list(list(tests)):
        return ""
    solution = str(row.get("code") or row.get("reference_solution") or "")
    defined = re.findall(r"\bdef +(\w+) *\(", solution)
    return next((word for word in re.findall(r"\w+", tests[0]) if word in defined), "")


def _is_assert_list(tests: Any) -> bool:
    return isinstance(tests, list) and bool(tests) and all(isinstance(t, str) for t in tests)


def _listed(row: Row, tests: list[Any]) -> dict[str, Any]:
    """DeepCoder's rows: a list of tests, each with its type."""
    if tests and all(isinstance(t, Mapping) and t.get("fn_name") for t in tests):
        name = str(tests[0]["fn_name"])
        cases = [
            _case(_parsed(test.get("input")), test.get("output"), f"[{i}].input", unwrap=True)
            for i, test in enumerate(tests)
        ]
        return {**_function_call(name, cases), **_integer_keys(cases)}
    details = (t.get("metadata") for t in tests if isinstance(t, Mapping) and t.get("metadata"))
    marked = [(t, bool(isinstance(t, Mapping) and t.get("public", False))) for t in tests]
    return _typed_cases(row, marked, next(details, None))


def _case(arguments: Any, output: Any, place: str, *, unwrap: bool, public: bool = False) -> dict[str, Any]:
    """A test of a function; some rows put each result into a list, which `unwrap` accepts."""
    if not isinstance(arguments, list):
        raise BadField("inputs", f"{place} must be a list of arguments")
    wrapped = unwrap and isinstance(output, list) and len(output) == 1
    return {"arguments": arguments, "accept": [output, output[0]] if wrapped else [output], "public": public}


def _function_call(
    name: str, tests: list[dict[str, Any]], method: bool = True, prelude: bool = True
) -> dict[str, Any]:
    form = {"form": "function_call", "fn_name": name, "method": method, "tests": tests, "tolerance": None}
    return {**form, "prelude": prelude}


def _json(row: Row, field: str) -> Any:
    value = row.get(field)
    return _loads(value, field) if isinstance(value, str) else value


def _loads(text: str, field: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadField(field, f"is not JSON ({error})") from error
    except ValueError as error:  # an integer of thousands of digits, which no run could store
        raise Untestable(field, f"cannot be read ({error})") from error


def _list(value: Any, field: str) -> list[Any]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise BadField(field, f"must be a list, not {type(value).__name__}")
    return list(value)


def _tolerance(row: Row) -> float | None:
    value = row.get("tolerance")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
        raise BadField("tolerance", f"must be a number of at least 0, not {value!r}")
    return float(value)


def _limit(row: Row, field: str, least: T, most: T) -> T | None:
    """A limit, also in CodeContests' seconds and nanoseconds; other sets' implausible ones are ignored."""
    value = row.get(field)
    if isinstance(value, Mapping):
        seconds, nanos = (value.get(name) or 0 for name in ("seconds", "nanos"))
        value = seconds + nanos / 1e9 if _is_number(seconds) and _is_number(nanos) else None
    if _is_number(value) and least <= value <= most:
        return type(least)(value)
    if "mode" in row and row.get(field) is not None:  # a row of our own form
        raise BadField(field, f"must be a number from {least} to {most}, not {row[field]!r}")
    return None


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _solutions(row: Row) -> list[str]:
    for field in ("reference_solution", "canonical_solution", "solutions", "solution", "code"):
        value = row.get(field)
        if isinstance(value, str) and field == "solutions":
            try:
                value = json.loads(value)
            except ValueError:
                value = [value] if value.strip() else []
        if isinstance(value, Mapping):  # CodeContests: language 3 is Python 3
            languages, written = value.get("language") or [], value.get("solution") or []
            if not isinstance(languages, Sequence) or not isinstance(written, Sequence):
                raise BadField(field, "must contain the lists 'language' and 'solution'")
            value = [s for s, language in zip(written, languages, strict=False) if language == 3]
        if isinstance(value, str) and value.strip():
            return [value]
        if isinstance(value, (list, tuple)) and value:
            return [str(solution) for solution in value[:_MAX_SOLUTIONS]]
    return []
