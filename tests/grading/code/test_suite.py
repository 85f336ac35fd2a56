"""What tests may do with the objects of a program, and hand to it: as if both were in one process."""

from pathlib import Path

import pytest
import sandboxes

from mars_env.types import Verdict


@pytest.fixture
def judge(grader):
    def judged(tests, program, **more):
        tests = [tests] if isinstance(tests, str) else tests
        return sandboxes.judge(grader, {"entry_point": "f", "tests": tests}, program, **more)

    return judged


def sections():
    """Title, tests, program, verdict, and the reference solution in a list, of each section of the file."""
    for section in Path(__file__).with_name("suites.txt").read_text(encoding="utf-8").split("\n=== ")[1:]:
        head, _, body = section.rstrip("\n").partition("\n")
        title, verdict = head.split(" | ")
        tests, program, *solution = body.split("\n---\n")
        tests = tests.split("\n+++\n")
        right, changes, wrong = verdict.partition(" => ")
        if changes:
            yield title, tests, program, "CORRECT", solution
            program, verdict = program.replace(right, wrong), "WRONG"
        yield title, tests, program, verdict, solution


@pytest.mark.parametrize("section", [*sections()], ids=lambda section: section[0])
def test_verdicts(judge, section):
    _, tests, program, verdict, solution = section
    found = judge(tests, program, **({"reference_solution": solution[0]} if solution else {}))
    assert found.verdict == verdict, found
    assert ("reference solution" in found.reason) == (bool(solution) and verdict == "UNKNOWN")


@pytest.mark.parametrize(
    ("caught", "said", "raised"),
    [
        ("KeyError", "'k'", "KeyError('k')"),
        ("KeyError", "5", "KeyError(5)"),
        ("ValueError", "bad: line 1 column 1 (char 0)", "json.JSONDecodeError('bad', '', 0)"),
        ("decimal.InvalidOperation", "no", "decimal.InvalidOperation('no')"),
        ("UnicodeDecodeError", "", "UnicodeDecodeError('utf-8', b'x', 0, 1, 'bad')"),
        ("Exception", "ExceptionGroup: no (1 sub-exception)", "ExceptionGroup('no', [ValueError()])"),
        ("ValueError", "own", "type('Own', (ValueError,), {})('own')"),
        *((kind, "no", f"{kind}('no')") for kind in ("AssertionError", "SystemExit", "KeyboardInterrupt")),
        ("OSError", "no", "OSError('no')"),
    ],
)
def test_exceptions_arrive_as_what_they_are(judge, caught, said, raised):
    test = (
        f"import decimal, json\ntry:\n    f(1)\nexcept {caught} as error:\n"
        f"    assert {said!r} in str(error)\nelse:\n    raise Exception('none')"
    )
    found = judge(test, f"import decimal, json\ndef f(x): raise {raised}")
    assert found.verdict is Verdict.CORRECT, found
    assert judge(test, "def f(x): raise IndexError('k')").verdict is Verdict.WRONG


@pytest.mark.parametrize("kind", ["StopIteration", "StopAsyncIteration", "GeneratorExit"])
def test_an_exception_of_the_program_ends_no_iterator_of_the_tests(judge, kind):
    loops = (
        "assert list(map(f, [1, 2])) == []",
        "assert all(map(lambda x: f(x) == 1, [1, 2]))",
        "assert list(iter(f, 1)) == []",
        "import asyncio\nclass Each:\n    def __aiter__(self): return self\n"
        "    async def __anext__(self): return f(1)\n"
        "async def main(): return [x async for x in Each()]\nassert asyncio.run(main()) == []",
    )
    for test in loops:
        found = judge(test, f"def f(*x): raise {kind}")
        assert found.verdict is Verdict.WRONG, found


@pytest.mark.parametrize(
    "attack",
    [
        "g.__globals__",
        "g.gi_frame.f_globals['check']",
        "vars(g)['_ask']('attribute', g, ('gi_frame',), {})",
        "vars(g)['_ask']('call', __import__('os')._exit, (0,), {})",
        "vars(g)['_ask']('assign', g, ('gi_frame', 1), {})",
        "vars(g)['_ask']('item', g, (), {})",
        "vars(g)['_ask']('call', 'exit', (0,), {})",
        "vars(g)['_ask']('no operation', g, ('gi_frame', 1), {})",
    ],
)
def test_what_tests_hand_out_gives_nothing_else_away(judge, attack):
    program = f"def f(g):\n    found = {attack}\n    return 'never'"
    found = judge("assert f(x for x in [1]) == 'never'", program)
    assert found.verdict is Verdict.WRONG and "it raised" in found.reason, found


@pytest.mark.parametrize("program", ["helper = 5", "helper = [1, 2]", "helper = None", ""])
def test_a_helper_that_is_plain_data_is_handed_over(judge, program):
    found = judge("assert f(helper) == 6", f"{program}\ndef f(x): return x + 1")
    assert found.verdict is (Verdict.CORRECT if program == "helper = 5" else Verdict.WRONG), found


@pytest.mark.parametrize(
    "hostile",
    [
        "def __len__(self): return 10**30",
        "def __len__(self): return 'four'",
        "def __bool__(self): return 4",
        "def __str__(self): return Any()",
        "def __str__(self): raise SystemExit(0)",
        "def __eq__(self, other): return True",
    ],
)
def test_an_object_that_lies_is_no_answer(judge, hostile):
    program = f"class Any:\n    {hostile}\n    def __iter__(self): return iter([4])\ndef f(x): return Any()"
    for asked in ("f(2) == 4", "str(f(2)) == '4'", "len(f(2)) == 4", "bool(f(2)) is 4"):
        assert judge(f"assert {asked}", program).verdict is Verdict.WRONG
