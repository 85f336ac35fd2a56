"""Mutants of MBPP's reference solutions that fail natively must be WRONG; and what `validate` says."""

import asyncio
import json

from command_line import run_python
from sandboxes import mbpp_rows

from mars_env.grading.code.mutants import mutants
from mars_env.grading.code.validate import validate_problem, validate_problems
from mars_env.problems.code import code_problem_from_row
from mars_env.types import Grade, Verdict

NATIVE = """
import json, os, resource, sys
for line in sys.stdin:
    program, tests = json.loads(line)
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        os.dup2(os.open("/dev/null", os.O_RDWR), 1); os.dup2(1, 2)
        code = 1
        try:
            namespace = {"__name__": "native"}
            exec(program, namespace)
            for test in tests: exec(test, namespace)
            code = 0
        except BaseException: pass
        os._exit(code)
    status = os.waitpid(pid, 0)[1]
    print("exit" if status == 0 else "limit" if os.WIFSIGNALED(status) else "fail")
"""


def native(jobs):
    """What a plain interpreter says: exit (all pass), fail, or limit."""
    lines = "\n".join(json.dumps(job) for job in jobs)
    return run_python(NATIVE, input=lines, timeout=900).stdout.split()


def test_mutants_that_fail_natively_are_wrong(grader):
    rows = mbpp_rows()[::10]
    jobs = [
        (row, text) for row in rows for text in mutants(row["reference_solution"], 4, seed=len(row["prompt"]))
    ]
    verdicts = native([("\n".join([*row["test_imports"], text]), row["tests"]) for row, text in jobs])
    failing = [job for job, verdict in zip(jobs, verdicts, strict=True) if verdict == "fail"]
    assert len(failing) >= 80

    async def graded():
        return await asyncio.gather(
            *(grader.grade(code_problem_from_row(row), text) for row, text in failing)
        )

    found = zip(failing, asyncio.run(graded()), strict=True)
    assert [(job, grade) for job, grade in found if grade.verdict is not Verdict.WRONG] == []


def test_mutants_differ_and_are_reproducible():
    source = "def f(x):\n    return [i for i in range(x) if i % 2 == 0 and i < 5]"
    first = mutants(source, 20, seed=1)
    assert first == mutants(source, 20, seed=1) and len(set(first)) == len(first) > 5
    assert source not in first
    assert set(mutants(source, 100, seed=2)) == set(mutants(source, 100, seed=3))


async def test_validate():
    base = {"prompt": "Return the larger.", "entry_point": "larger"}
    right = "def larger(a, b):\n    return a if a > b else b"
    tests = ["assert larger(1, 2) == 2", "assert larger(5, -1) == 5"]
    problems = [
        code_problem_from_row({**base, "id": "good", "tests": tests, "reference_solution": right}),
        code_problem_from_row({**base, "id": "none", "tests": tests}),
        code_problem_from_row(
            {**base, "id": "bad", "tests": ["assert larger(1, 2) == 1"], "solution": right}
        ),
        code_problem_from_row(
            {**base, "id": "weak", "tests": ["assert larger(1, 2) is not None"], "solution": right}
        ),
        *(
            code_problem_from_row({**base, "id": "void", "tests": ["larger(1, 2)"], "solution": text})
            for text in (right, "import functools\n\n@functools.cache\ndef larger(a, b):\n    return None")
        ),
    ]
    seen = []
    found = await validate_problems(problems, on_progress=seen.append)
    assert [v.problem for v in found] == ["good", "none", "bad", "weak", "void", "void"]
    assert len(seen) == 6 and [v.fit for v in found] == [True, False, False, False, False, False]
    assert found[0].caught == found[0].mutants > 2 or found[0].caught >= 2
    assert "no reference solution" in found[1].reason
    assert "WRONG" in found[2].reason
    assert "mutants" in found[3].reason
    assert "does nothing" in found[4].reason and found[4].reason == found[5].reason


class Failing:
    """Judges the reference solution; of mutants it judges `judged`, and then no sandbox can be started."""

    def __init__(self, judged):
        self.judged = judged

    async def grade(self, problem, text):
        if "return 2 * x" in text:
            return Grade.correct()
        if "pass" in text:
            return Grade.wrong("it does nothing")
        self.judged -= 1
        return Grade.wrong("wrong answer") if self.judged >= 0 else Grade.unknown("no sandbox")


async def test_a_mutant_that_could_not_be_judged_says_nothing_of_the_tests():
    row = {"id": "twice", "prompt": "Return twice x.", "entry_point": "twice"}
    solution = "def twice(x):\n    return 2 * x"
    problem = code_problem_from_row({**row, "tests": ["assert twice(5) == 10"], "solution": solution})
    found = await validate_problem(problem, Failing(judged=1))
    assert (found.fit, found.caught, found.mutants) == (True, 1, 1)
    found = await validate_problem(problem, Failing(judged=0))
    assert (found.fit, found.reason) == (False, "no mutant could be judged: no sandbox")
