"""Mutants of reference solutions, and what `validate` says with them."""

from mars_env.grading.code.mutants import mutants
from mars_env.grading.code.validate import validate_problem, validate_problems
from mars_env.problems.code import code_problem_from_row
from mars_env.types import Grade


def test_mutants_differ_and_are_reproducible():
    source = "def f(x):\n    return [i for i in range(x) if i % 2 == 0 and i < 5]"
    first = mutants(source, 20, seed=1)
    assert first == mutants(source, 20, seed=1) and len(set(first)) == len(first) > 5
    assert source not in first
    assert set(mutants(source, 100, seed=2)) == set(mutants(source, 100, seed=3))


async def test_validate():
    base = {"prompt": "Return the larger.", "entry_point": "larger"}
    right = "def larger(a, b):\n    return a if a > b else b"
    none = "import functools\n\n@functools.cache\ndef larger(a, b):\n    return None"
    tests = ["assert larger(1, 2) == 2", "assert larger(5, -1) == 5"]
    problems = [
        code_problem_from_row({**base, "id": "good", "tests": tests, "reference_solution": right}),
        code_problem_from_row({**base, "id": "none", "tests": tests}),
        *(
            code_problem_from_row({**base, "id": id, "tests": [test], "solution": solution})
            for id, test, solution in (
                ("bad", "assert larger(1, 2) == 1", right),
                ("weak", "assert larger(1, 2) is not None", right),
                ("void", "larger(1, 2)", right),
                ("void", "larger(1, 2)", none),
            )
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
