"""What tests may do with the objects of a program, and hand to it: as if both were in one process."""

import asyncio

import pytest
import sandboxes

from mars_env.grading.code.grader import CodeGrader
from mars_env.sandbox import Limits
from mars_env.types import Verdict


@pytest.fixture(scope="module")
def grader():
    sandboxes.need_a_sandbox()
    grader = CodeGrader(limits=Limits(cpu_seconds=2))
    yield grader
    asyncio.run(grader.aclose())


def judge(grader, name, test, program, **more):
    return sandboxes.judge(grader, {"entry_point": name, "tests": [test]}, program, **more)


STACK = """
class Stack:
    limit = 9
    def __init__(self): self.items = []
    def push(self, x): self.items.append(x)
    def pop(self): return self.items.pop()
    def __len__(self): return len(self.items)
    def __str__(self): return f"<{len(self.items)} items>"
    def __repr__(self): return f"Stack({self.items})"
    @staticmethod
    def of(*items):
        made = Stack()
        made.items += items
        return made
"""
KEPT = """
from collections import namedtuple
Point = namedtuple("Point", "x y")
def point(a, b): return Point(a, b)
"""


@pytest.mark.parametrize(
    ("name", "test", "program", "right", "wrong"),
    [
        ("Stack", "s = Stack()\nassert not s\ns.push(1)\nassert s and len(s) == 1", STACK, "append", "count"),
        ("Stack", "assert f'{Stack()}' == str(Stack()) == '<0 items>'", STACK, "0", "0"),
        ("Stack", "assert str([Stack()]) == '[Stack([])]'", STACK, "Stack({", "Stick({"),
        ("Stack", "s = Stack.of(1, 2)\nassert s.pop() == 2 and Stack.limit == 9", STACK, "= 9", "= 8"),
        (
            "Stack",
            "assert isinstance(Stack.of(), Stack) and not isinstance(9, Stack)",
            STACK,
            "made\n",
            "9\n",
        ),
        ("size", "assert size(Stack.of(1)) == 1", STACK + "def size(s): return len(s)", "len(s)", "2"),
        ("point", "p = point(1, 2)\nassert p.x == p[0] == 1 and p == (1, 2)", KEPT, '"x y"', '"y x"'),
        (
            "f",
            "class N:\n    def __init__(self): self.n = 0\n    def add(self): self.n += 1\n"
            "    def __len__(self): return self.n\nassert f(N()) == 2",
            "def f(x):\n    while len(x) < 2 or not x: x.add()\n    return len(x)",
            "< 2",
            "< 3",
        ),
    ],
)
def test_objects_of_the_program_are_asked_when_the_tests_ask(grader, name, test, program, right, wrong):
    found = judge(grader, name, test, program)
    assert found.verdict is Verdict.CORRECT, found
    if right != wrong:
        found = judge(grader, name, test, program.replace(right, wrong))
        assert found.verdict is Verdict.WRONG, found


@pytest.mark.parametrize(
    ("test", "program"),
    [
        ("d = defaultdict(int, {1: 2})\nassert f(d) == 2 and type(d) is defaultdict", "return p[1] + p[7]"),
        ("d = defaultdict(list)\nf(d)\nassert d == {3: [4]} and d[5] == []", "p[3].append(4)"),
        ("class L(list): pass\nd = L([1])\nf(d)\nassert d == [1, 2] and type(d) is L", "p.append(2)"),
        ("class S(set): pass\nassert f(S([1])) == 1", "return len(p)"),
        ("P = namedtuple('P', 'x y')\nassert f(P(1, 2)) == 5", "return p.x + p[1] * 2"),
        ("P = namedtuple('P', 'x y')\nassert f([P(1, 2), P(0, 3)])[0] == P(0, 3)", "return sorted(p)"),
        ("P = namedtuple('P', 'x def', rename=True)\nassert f(P(1, 2)) == 3", "return p[0] + p[1]"),
    ],
)
def test_containers_of_other_classes_are_handed_over(grader, test, program):
    test = "from collections import defaultdict, namedtuple\n" + test
    found = judge(grader, "f", test, f"def f(p): {program}")
    assert found.verdict is Verdict.CORRECT, found
    assert judge(grader, "f", test, "def f(p): p.clear()").verdict is Verdict.WRONG


@pytest.mark.parametrize(
    ("caught", "said", "raised"),
    [
        ("KeyError", "'k'", "KeyError('k')"),
        ("KeyError", "5", "KeyError(5)"),
        ("json.JSONDecodeError", "bad: line 1 column 1 (char 0)", "json.JSONDecodeError('bad', '', 0)"),
        ("ValueError", "bad: line 1 column 1 (char 0)", "json.JSONDecodeError('bad', '', 0)"),
        ("decimal.InvalidOperation", "no", "decimal.InvalidOperation('no')"),
        ("UnicodeDecodeError", "", "UnicodeDecodeError('utf-8', b'x', 0, 1, 'bad')"),
        ("Exception", "ExceptionGroup: no (1 sub-exception)", "ExceptionGroup('no', [ValueError()])"),
        ("ValueError", "own", "type('Own', (ValueError,), {})('own')"),
    ],
)
def test_exceptions_arrive_as_what_they_are(grader, caught, said, raised):
    test = (
        f"import decimal, json\ntry:\n    f(1)\nexcept {caught} as error:\n"
        f"    assert {said!r} in str(error)\nelse:\n    assert False"
    )
    found = judge(grader, "f", test, f"import decimal, json\ndef f(x): raise {raised}")
    assert found.verdict is Verdict.CORRECT, found
    for other in ("raise IndexError('k')", "return 5"):
        assert judge(grader, "f", test, f"def f(x): {other}").verdict is Verdict.WRONG


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
def test_an_object_that_lies_is_no_answer(grader, hostile):
    program = f"class Any:\n    {hostile}\n    def __iter__(self): return iter([4])\ndef f(x): return Any()"
    for test in (
        "assert f(2) == 4",
        "assert str(f(2)) == '4'",
        "assert len(f(2)) == 4",
        "assert bool(f(2)) is 4",
    ):
        assert judge(grader, "f", test, program).verdict is Verdict.WRONG


def test_the_names_of_a_tuple_replace_no_method(grader):
    made = "from collections import namedtuple\nP = namedtuple('P', 'count x')\n"
    program = f"{made}def f(x): return P(lambda y: 1, 5)"
    found = judge(grader, "f", "assert f(2).count(4) == 1", program)
    assert found.verdict is Verdict.WRONG, found


def test_a_module_of_the_program_answers_no_test(grader):
    test = "assert np.allclose(f(2), 4)"
    program = "class np:\n    def allclose(*a): return True\ndef f(x): return 5"
    assert judge(grader, "f", test, program).verdict is Verdict.WRONG


@pytest.mark.parametrize(
    ("program", "verdict"),
    [
        ("def f(x): return 2 * x", Verdict.UNKNOWN),
        ("def f(x): raise ModuleNotFoundError('nowhere', name='nowhere')", Verdict.WRONG),
    ],
)
def test_only_the_tests_can_lack_a_module(grader, program, verdict):
    assert judge(grader, "f", "assert f(2) == 4\nimport nowhere", program).verdict is verdict


UNITTEST = """import unittest
class T(unittest.TestCase):
    def test(self):
        self.assertEqual(f(2), 4)
ran = unittest.TestResult()
unittest.defaultTestLoader.loadTestsFromTestCase(T).run(ran)
assert ran.wasSuccessful()"""


@pytest.mark.parametrize(
    ("test", "program", "verdict"),
    [
        (UNITTEST, "def f(x): return 2 * x", Verdict.CORRECT),
        (UNITTEST, "import unittest\ndef f(x): raise unittest.SkipTest", Verdict.WRONG),
        ("if __name__ == '__main__':\n    assert f(2) == 4", "def f(x): return 2 * x", Verdict.UNKNOWN),
    ],
    ids=["right", "it skips the test", "tests that use nothing"],
)
def test_a_program_has_to_answer(grader, test, program, verdict):
    assert judge(grader, "f", test, program).verdict is verdict


EQUAL = (
    "class V:\n    def __init__(self, x): self.x = x\n    def __eq__(self, other): return self.x == other.x\n"
)


def test_what_tests_cannot_do_with_objects_is_told_by_the_reference_solution(grader):
    test = "assert V(1) == V(1)"
    unknown = judge(grader, "V", test, EQUAL, reference_solution=EQUAL)
    assert unknown.verdict is Verdict.UNKNOWN and "reference solution" in unknown.reason
    assert judge(grader, "V", test, EQUAL).verdict is Verdict.WRONG
    test = "try:\n    f(-1)\nexcept Negative:\n    pass\nelse:\n    assert False"
    raises = "class Negative(Exception): pass\ndef f(x): raise Negative(x)"
    assert judge(grader, "f", test, raises, reference_solution=raises).verdict is Verdict.UNKNOWN
    assert judge(grader, "f", test, "def f(x): return 1", reference_solution=raises).verdict is Verdict.WRONG
    test, reads = "import io\nassert f(io.StringIO('ab')) == 'ab'", "def f(x): return x.read()"
    assert judge(grader, "f", test, reads, reference_solution=reads).verdict is Verdict.UNKNOWN
    plain = {"reference_solution": "def f(x): return 2 * x"}
    forged = "def f(x): raise TypeError('classes that do not inherit from BaseException')"
    assert judge(grader, "f", "assert f(2) == 4", forged, **plain).verdict is Verdict.WRONG
    for program in ("def f(x): return 5", f"{EQUAL}def f(x): return V(4)", "def f(x): raise ValueError"):
        assert judge(grader, "f", "assert f(2) == 4", program, **plain).verdict is Verdict.WRONG
    broken = {"reference_solution": "def f(x): return 5"}
    assert (
        judge(grader, "f", "assert f(2) == 4", f"{EQUAL}def f(x): return V(4)", **broken).verdict
        is Verdict.WRONG
    )
