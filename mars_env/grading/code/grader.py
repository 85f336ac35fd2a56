"""`CodeGrader` judges programs by running them in sandboxes, which expected results never enter."""

import asyncio
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from mars_env.errors import ConfigError, ProblemError, SandboxError
from mars_env.grading import pickled
from mars_env.grading.code import values
from mars_env.grading.code.asserts import judge_suite
from mars_env.grading.code.compare import (
    has_room_for,
    output_key,
    outputs_match,
    preview,
    value_key,
    values_match,
)
from mars_env.grading.code.extract import asked_names, extract_program
from mars_env.grading.code.outcomes import (
    SHOWN,
    SMALL,
    Task,
    TestResult,
    badly_ended,
    failure_of,
    quoted_errors,
    quoted_output,
    run_job,
    shortened,
)
from mars_env.grading.code.reference import check_tests
from mars_env.problems.code import with_integer_keys
from mars_env.sandbox import Backend, Ended, Job, Lease, Limits, Pool, Result
from mars_env.text import describe_error, visible
from mars_env.types import Grade, Problem

T = TypeVar("T")
Scope = Literal["all", "public"]
Score = Literal["all", "fraction"]

FEEDBACK_CHARACTERS = 2000  # at about this length feedback is cut

_CALL = "from mars_env.grading.code import program\nprogram._call()\n"
_SCRIPT = "from mars_env.grading.code import program\nprogram._script()\n"


@dataclass(kw_only=True, eq=False)
class CodeGrader:
    """Grades code problems (see `mars_env.problems.code`) from any thread and event loop.

    Attributes:
        backend: The sandbox, as for `mars_env.sandbox.run`.
        tests: ``"all"``, or ``"public"`` to judge by the public tests alone.
        score: ``"all"``: 1 if all tests pass, else 0; ``"fraction"``: the share of tests that pass.
        run_all: Whether to continue after a failure; ``"fraction"`` always does.
        feedback: ``"public"``: feedback shows only public tests; ``"all"`` shows any.
        limits: For one test. A time or memory limit that the problem states takes precedence.
        slots: Programs judged at a time; by default one more than the number of processors.

    Example:
        >>> from mars_env.problems.code import code_problem_from_row
        >>> problem = code_problem_from_row({"id": "echo", "prompt": "Echo a line.", "mode": "stdin",
        ...     "tests": [{"input": "a", "output": "a"}, {"input": "b", "output": "b"}]})
        >>> grader = CodeGrader()
        >>> str(asyncio.run(grader.grade(problem, "print(input())")).verdict)
        'CORRECT'
        >>> asyncio.run(grader.grade(problem, "print('a')")).reason
        'test 2 of 2: wrong answer'
        >>> asyncio.run(grader.aclose())
    """

    backend: str | Backend = field(default="auto", repr=False)
    tests: Scope = "all"
    score: Score = "all"
    run_all: bool = False
    feedback: Scope = "public"
    limits: Limits = field(default_factory=Limits)
    slots: int | None = field(default=None, repr=False)
    pool: Pool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, choices in (("tests", Scope), ("score", Score), ("feedback", Scope)):
            if getattr(self, name) not in get_args(choices):
                raise ConfigError(f"CodeGrader takes {name}={' or '.join(map(repr, get_args(choices)))}")
        self.pool = Pool(self.backend, slots=self.slots, modules=_modules())

    def __reduce__(self) -> tuple[Any, ...]:
        return pickled(self, "code")

    async def grade(self, problem: Problem, text: str) -> Grade:
        """Judge a completion. See `mars_env.types.Grader`."""
        return await self._grade(problem, text, self.tests, self.score)

    async def search_score(self, problem: Problem, text: str) -> float | None:
        """The share of public tests that pass, None if unknown; a `ConfigError` if there are none."""
        return (await self._grade(problem, text, "public", "fraction")).score

    async def outputs(self, problem: Problem, text: str) -> tuple[str, ...] | None:
        """A program's results for the inputs of the public tests, as strings by which votes compare programs.

        None if there is no program, or if it fails on an input; a `ConfigError` if the problem has no inputs
        (see `has_inputs`), a `SandboxError` if no sandbox could be started, or it was lost.
        """
        if not has_inputs(problem):
            raise ConfigError(f"the problem {problem.id!r} has no public tests with inputs")
        task = _task(problem, "public", True, self.limits)
        program, _ = extract_program(text, *task.names)
        if program is None or "\0" in program:
            return None
        return await self.pool.use(lambda lease: _outputs(lease, task, program))

    async def aclose(self) -> None:
        """End the idle sandboxes. The grader can be used again."""
        await self.pool.aclose()

    async def _grade(self, problem: Problem, text: str, scope: Scope, score: Score) -> Grade:
        started = time.monotonic()
        try:
            task = _task(problem, scope, self.run_all or score == "fraction", self.limits)
        except ConfigError:
            raise
        except Exception as error:  # a problem may come from anywhere: a bad one costs only its own verdict
            grade = Grade.unknown(f"the problem's tests cannot be read ({describe_error(error)})")
        else:
            grade = await self._grade_task(task, text, score)
        return replace(grade, seconds=time.monotonic() - started)

    async def _grade_task(self, task: Task, text: str, score: Score) -> Grade:
        program, why = extract_program(text, *task.names)
        if program is not None and "\0" in program:
            program, why = None, "the program contains a NUL"
        if program is None:
            return Grade.wrong(why, feedback=f"{why[:1].upper()}{why[1:]}.")
        try:
            backend, results = await self.pool.use(lambda lease: _judge(lease, task, program))
        except SandboxError as error:
            return Grade.unknown(f"no sandbox could be started: {error}")
        total = len(task.tests)
        if fault := next((each for each in results if each.fault), None):
            return Grade.unknown(fault.why, backend=backend)
        passed = sum(each.passed for each in results)
        # A program's words may hold lone surrogates, which no tokenizer takes.
        feedback = visible(_feedback(results, total, self.feedback))[:FEEDBACK_CHARACTERS]
        if passed == total:
            return Grade.correct(backend=backend, feedback=feedback)
        at, first = next((i, each) for i, each in enumerate(results) if not each.passed)
        reason = visible(f"test {at + 1} of {total}: {first.why}" if total > 1 else first.why)
        fraction = passed / total if score == "fraction" else 0.0
        return Grade.wrong(reason, score=fraction, backend=backend, feedback=feedback)


def has_inputs(problem: Problem) -> bool:
    """Whether a problem has public tests with inputs, so that programs can be run on them and compared."""
    reference = problem.reference
    if problem.kind != "code" or not isinstance(reference, Mapping):
        return False
    return reference.get("form") in ("stdin", "function_call") and any(
        t["public"] for t in reference["tests"]
    )


@functools.cache
def _modules() -> dict[str, str]:
    folder = Path(__file__).parent
    names = ("values", "program", "suite")
    sources = {f"mars_env.grading.code.{n}": (folder / f"{n}.py").read_text(encoding="utf-8") for n in names}
    return {"mars_env": "", "mars_env.grading": "", "mars_env.grading.code": "", **sources}


def _task(problem: Problem, scope: Scope, run_all: bool, limits: Limits) -> Task:
    reference = problem.reference
    if problem.kind != "code":
        raise ConfigError(f"CodeGrader judges code problems; {problem.id!r} is of the kind {problem.kind!r}")
    check_tests(reference)
    tests = sorted(reference["tests"], key=lambda test: not test["public"])
    if scope == "public":
        tests = [test for test in tests if test["public"]]
        if not tests:
            raise ConfigError(f"the problem {problem.id!r} has no public tests to judge by")
    stated = {"cpu_seconds": reference.get("time_limit"), "memory_bytes": reference.get("memory_limit")}
    try:
        limits = replace(limits, **{name: value for name, value in stated.items() if value})
    except ConfigError as error:
        raise ProblemError(str(error)) from error
    return Task(reference, tuple(tests), asked_names(reference), run_all, limits)


async def _judge(lease: Lease, task: Task, program: str) -> tuple[str, list[TestResult]]:
    if task.reference["form"] == "asserts":
        return lease.backend.name, await judge_suite(lease, task, program)
    judge_one = _judge_stdin if task.reference["form"] == "stdin" else _judge_call
    results = []
    for test in task.tests:
        results.append(await judge_one(lease, task, test, program))
        if results[-1].fault or not (results[-1].passed or task.run_all):
            break
    return lease.backend.name, results


def _stdin_job(task: Task, test: Mapping[str, Any], program: str) -> Job:
    source = program.encode("utf-8", "surrogatepass")
    stdin: bytes = test["input"].encode("utf-8", "surrogatepass")
    if task.reference.get("prelude"):
        return Job(source=_SCRIPT, stdin=stdin, files={"program.py": source})
    return Job(source=source, stdin=stdin)


def _call_job(task: Task, test: Mapping[str, Any], program: str) -> Job:
    reference = task.reference
    case = (reference["fn_name"], reference["method"], reference["prelude"], _arguments(reference, test))
    source = program.encode("utf-8", "surrogatepass")
    return Job(source=_CALL, files={"program.py": source, "case": values.encode(case)})


def _arguments(reference: Mapping[str, Any], test: Mapping[str, Any]) -> list[Any]:
    arguments = list(test["arguments"])
    return with_integer_keys(arguments) if reference.get("integer_keys") else arguments


async def _outputs(lease: Lease, task: Task, program: str) -> tuple[str, ...] | None:
    stdin = task.reference["form"] == "stdin"
    make_job, key = (_stdin_job, output_key) if stdin else (_call_job, value_key)
    results = []
    for test in task.tests:
        try:
            job = make_job(task, test, program)
        except values.BadValue:  # arguments that are nested too deeply
            return None
        result = await run_job(lease, job, task.limits)
        if result.ended is Ended.LOST:
            raise SandboxError(f"the sandbox was lost: {result.detail}")
        if badly_ended(result) is not None:
            return None
        data = result.stdout if stdin else result.data
        text = await _apart(len(data), key, data)
        if text is None:
            return None
        results.append(text)
    return tuple(results)


async def _judge_stdin(lease: Lease, task: Task, test: Mapping[str, Any], program: str) -> TestResult:
    result = await run_job(lease, _stdin_job(task, test, program), task.limits)
    detail = f"Input:\n{shortened(test['input'])}"
    if (ended := badly_ended(result)) is not None:
        return failure_of(test, ended, f"{detail}\n{quoted_errors(result)}", result)
    detail += f"\nExpected output:\n{shortened(test['output'])}\nYour output:\n{quoted_output(result.stdout)}"
    wrong = TestResult(False, test["public"], "wrong answer", detail)
    if task.reference.get("checker"):
        return await _check(lease, task, test, result.stdout, wrong)
    right = await _apart(len(result.stdout), _output_is_right, result.stdout, test["output"], task.reference)
    return TestResult(True, test["public"]) if right else wrong


def _output_is_right(stdout: bytes, expected: str, reference: Mapping[str, Any]) -> bool:
    # An expected output may hold the replacement for bytes that are not text.
    output = stdout.decode("utf-8", "replace" if "\ufffd" in expected else "surrogateescape")
    options = {name: reference[name] for name in ("exact", "tolerance", "comparison") if name in reference}
    return outputs_match(expected, output, **options)


async def _apart(size: int, function: Callable[..., T], *arguments: Any) -> T:
    """Call a function on `size` bytes; if they are many, in a thread, so that other verdicts do not wait."""
    return await asyncio.to_thread(function, *arguments) if size > SMALL else function(*arguments)


async def _check(
    lease: Lease, task: Task, test: Mapping[str, Any], output: bytes, wrong: TestResult
) -> TestResult:
    result = await _run_checker(lease, task, test, output)
    if result.ended is Ended.LOST:
        return failure_of(test, "the checker was lost", "", result)
    if result.ok:
        return TestResult(True, test["public"])
    # A checker that fails on an output has not accepted it: an output must not be able to force UNKNOWN.
    # One that fails on the expected output too is broken.
    expected = test["output"].encode("utf-8", "surrogatepass")
    failed = result.ended is not Ended.EXITED or str(badly_ended(result)).startswith("it raised")
    if failed and expected.strip():
        control = await _run_checker(lease, task, test, expected)
        if (why := badly_ended(control)) is not None:
            why = f"the problem's checker fails on the expected output too: {why}"
            return failure_of(test, why, "", replace(control, ended=Ended.LOST))
    return wrong


async def _run_checker(lease: Lease, task: Task, test: Mapping[str, Any], output: bytes) -> Result:
    stdin, expected = (test[name].encode("utf-8", "surrogatepass") for name in ("input", "output"))
    files = {"input.txt": stdin, "expected.txt": expected, "output.txt": output}
    job = Job(source=task.reference["checker"], arguments=tuple(files), files=files)
    limits = replace(task.limits, cpu_seconds=max(10.0, 2 * task.limits.cpu_seconds))
    return await run_job(lease, job, limits, role="checker")


async def _judge_call(lease: Lease, task: Task, test: Mapping[str, Any], program: str) -> TestResult:
    reference, public = task.reference, test["public"]
    try:
        job = _call_job(task, test, program)
    except values.BadValue as error:
        return TestResult(False, public, f"the problem's arguments cannot be sent: {error}", fault=True)
    result = await run_job(lease, job, task.limits)
    arguments = ", ".join(preview(a, SHOWN) for a in _arguments(reference, test))
    detail = f"Call: {reference['fn_name']}({arguments})"
    sent = await _apart(len(result.data), _read_sent, result.data, test["accept"], reference.get("tolerance"))
    if not sent.right and not any(map(_can_be_returned, test["accept"])):
        why = "the problem's expected result is nested too deeply to be returned"
        return TestResult(False, public, why, fault=True)
    ended = badly_ended(result)
    if sent.kind == "raised" and result.ended is Ended.EXITED:
        ended = f"it raised {sent.shown[:60].strip(chr(39))}"
    if ended is not None:
        return failure_of(test, ended, f"{detail}\n{quoted_errors(result)}", result)
    if sent.kind != "result":
        return failure_of(test, "it returned no value that can be compared", detail, result)
    if sent.right:
        return TestResult(True, public)
    detail += f"\nExpected: {preview(test['accept'][0], SHOWN)}\nReturned: {sent.shown}"
    return TestResult(False, public, "wrong answer", detail)


def _can_be_returned(expected: Any) -> bool:
    try:
        values.encode(("result", expected))
    except values.BadValue:
        return False
    return True


class _Sent(NamedTuple):
    kind: str = ""  # "result", "raised", or nothing readable
    right: bool = False
    shown: str = ""


_RESULT = values.encode(("result", 0)).removesuffix(b"0]")


def _read_sent(data: bytes, accept: Sequence[Any], tolerance: float | None) -> _Sent:
    size = len(data) - len(_RESULT)
    if size > SMALL and not any(has_room_for(expected, size) for expected in accept):
        detail = f"a value of {size:,} bytes, more than any right one needs"
        return _Sent("result" if data.startswith(_RESULT) else "", shown=detail)
    try:
        message = values.decode(data, hashed=False)
    except values.BadValue:
        return _Sent()
    match message:
        case (str(kind), value):
            right = kind == "result" and any(values_match(e, value, tolerance=tolerance) for e in accept)
            return _Sent(kind, right, preview(value, SHOWN))
        case _:
            return _Sent()


def _feedback(results: Sequence[TestResult], total: int, scope: str) -> str:
    passed = sum(each.passed for each in results)
    failed = next((each for each in results if not each.passed), None)
    if failed is None:
        return f"All {total} tests passed." if total > 1 else "The test passed."
    number = f"{passed} of {total} tests passed" if len(results) == total else f"{passed} tests passed"
    if not failed.public and scope == "public":
        return f"{number}, then a hidden test failed: {failed.why}."
    detail = f"\n{failed.detail}" if failed.detail else ""
    return f"{number}. The first failure: {failed.why}.{detail}"
