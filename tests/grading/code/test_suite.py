"""What tests may do with the objects of a program, and hand to it: as if both were in one process."""

import pytest
import sandboxes

from mars_env.types import Verdict


@pytest.fixture
def judge(grader):
    def judged(tests, program, **more):
        tests = [tests] if isinstance(tests, str) else tests
        return sandboxes.judge(grader, {"entry_point": "f", "tests": tests}, program, **more)

    return judged


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
def f(s): return len(s)
"""
KEPT = """
from collections import namedtuple
Point = namedtuple("Point", "x y")
def f(a, b): return Point(a, b)
"""
PAIRS = """
class Pair:
    def __init__(self, a, b): self.a, self.b = a, b
def f(x): return x[0].a
def same(x): return x
def count(n): yield from range(n)
def adder(n): return lambda x: x + n
def grow(x):
    x['k'].append(1); x['n'] = 0
def apply(f, x): return f(x)
calls = []
def called(x):
    calls.append(x); return len(calls)
"""
OF_PAIRS = [
    "assert f([Pair(1, 2), Pair(3, 4)]) == 1",
    "p = Pair(5, 6)\nassert p.a == 5 and f([p]) == 5 and same(p) is p",
    "import collections\nassert list(count(3)) == [0, 1, 2] and next(count(1)) == 0",
    "assert adder(2)(3) == 5",
    "try:\n    f([])\n    raise KeyError\nexcept IndexError as error:\n    assert 'range' in str(error)",
    "x = {'k': [1]}\ngrow(x)\nassert x == {'k': [1, 1], 'n': 0}",
    "assert apply(adder, 1)(1) == 2",
    "assert called(5) == 1",
    "assert called(5) == 2",
]
HANDED_TO = """
def f(g, xs): return [g(x) for x in xs]
def total(xs): return sum(xs)
def same(x): return x
def length(node):
    node.value, n = 9, 0
    while node: n, node = n + 1, node.after
    return n
"""
HANDED = [
    "assert f(lambda x: x + 1, [1, 2]) == [2, 3]",
    "assert f(abs, [-1]) == [1] and f(str, [1]) == ['1']",
    "assert f(iter([5, 6]).__next__, []) == [] and total(iter([1, 2, 3])) == 6 and total({1: 2}.keys()) == 1",
    "class Node:\n    def __init__(self, value, after=None): self.value, self.after = value, after\n"
    "head = Node(1, Node(2))\nassert length(head) == 2 and head.value == 9",
    "try:\n    f(lambda x: 1 / x, [0])\nexcept ZeroDivisionError: pass\nelse: assert False",
    "assert f(lambda x: total([x, 1]), [4]) == [5]",
    "k = lambda x: -x\nassert f(same(k), [1]) == [-1] and same(k) is k",
]


@pytest.mark.parametrize(
    ("tests", "program", "right", "wrong"),
    [
        ("s = Stack()\nassert not s\ns.push(1)\nassert s and len(s) == 1", STACK, "append", "count"),
        ("assert f'{Stack()}' == str(Stack()) == '<0 items>'", STACK, "items>", "items"),
        ("assert str([Stack()]) == '[Stack([])]'", STACK, "Stack({", "Stick({"),
        ("s = Stack.of(1, 2)\nassert s.pop() == 2 and Stack.limit == 9", STACK, "= 9", "= 8"),
        ("assert isinstance(Stack.of(), Stack) and not isinstance(9, Stack)", STACK, "made\n", "9\n"),
        ("assert f(Stack.of(1)) == 1", STACK, "return len(s)", "return 2"),
        ("p = f(1, 2)\nassert p.x == p[0] == 1 and p == (1, 2)", KEPT, '"x y"', '"y x"'),
        (
            "class N:\n    def __init__(self): self.n = 0\n    def add(self): self.n += 1\n"
            "    def __len__(self): return self.n\nassert f(N()) == 2",
            "def f(x):\n    while len(x) < 2 or not x: x.add()\n    return len(x)",
            "< 2",
            "< 3",
        ),
        (OF_PAIRS, PAIRS, "x['n'] = 0", "pass"),
        (HANDED, HANDED_TO, "g(x)", "x"),
    ],
)
def test_objects_of_both_sides_are_asked_when_the_other_asks(judge, tests, program, right, wrong):
    found = judge(tests, program)
    assert found.verdict is Verdict.CORRECT, found
    found = judge(tests, program.replace(right, wrong))
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
def test_containers_of_other_classes_are_handed_over(judge, test, program):
    test = "from collections import defaultdict, namedtuple\n" + test
    found = judge(test, f"def f(p): {program}")
    assert found.verdict is Verdict.CORRECT, found
    assert judge(test, "def f(p): p.clear()").verdict is Verdict.WRONG


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


def test_names_of_the_program_answer_no_test(judge):
    replaces_a_method = "from collections import namedtuple\nP = namedtuple('P', 'count x')\n"
    replaces_a_method += "def f(x): return P(lambda y: 1, 5)"
    assert judge("assert f(2).count(4) == 1", replaces_a_method).verdict is not Verdict.CORRECT
    is_a_module = "class np:\n    def allclose(*a): return True\ndef f(x): return 5"
    assert judge("assert np.allclose(f(2), 4)", is_a_module).verdict is not Verdict.CORRECT


def test_only_the_tests_can_lack_a_module(judge):
    test = "assert f(2) == 4\nimport nowhere"
    assert judge(test, "def f(x): return 2 * x").verdict is Verdict.UNKNOWN
    lacking = "def f(x): raise ModuleNotFoundError('nowhere', name='nowhere')"
    assert judge(test, lacking).verdict is Verdict.WRONG


UNITTEST = """import unittest
class T(unittest.TestCase):
    def test(self):
        self.assertEqual(f(2), 4)
ran = unittest.TestResult()
unittest.defaultTestLoader.loadTestsFromTestCase(T).run(ran)
assert ran.wasSuccessful()"""


LEAVES = "import os, threading\nthreading.Timer(0.05, os._exit, (0,)).start()\ndef f(x): return 4"


@pytest.mark.parametrize(
    ("test", "program", "verdict"),
    [
        (UNITTEST, "def f(x): return 2 * x", Verdict.CORRECT),
        (UNITTEST, "import unittest\ndef f(x): raise unittest.SkipTest", Verdict.WRONG),
        ("if __name__ == '__main__':\n    assert f(2) == 4", "def f(x): return 2 * x", Verdict.UNKNOWN),
        ("import unittest\nunittest.main(argv=['-'])", "def f(x): return 2 * x", Verdict.UNKNOWN),
        ("import time\ntime.sleep(3)\nassert f(2) == 4", LEAVES, Verdict.WRONG),
    ],
    ids=["right", "it skips the test", "guarded tests", "tests not found", "it leaves before the tests"],
)
def test_a_program_has_to_answer(judge, test, program, verdict):
    assert judge(test, program).verdict is verdict


EQUAL = (
    "class V:\n    def __init__(self, x): self.x = x\n    def __eq__(self, other): return self.x == other.x\n"
)
OTHER = f"{EQUAL}def f(x): return V(4)"
READS = "def f(x): return x.read()"
RAISES = "class Negative(Exception): pass\ndef f(x): raise Negative(x)"
FORGED = "def f(x): raise TypeError('classes that do not inherit from BaseException')"
COMPARED, CAUGHT = "assert V(1) == V(1)", "try:\n    f(-1)\nexcept Negative: pass\nelse: assert False"


@pytest.mark.parametrize(
    ("test", "program", "solution", "verdict"),
    [
        (COMPARED, EQUAL, EQUAL, Verdict.UNKNOWN),
        (COMPARED, EQUAL, None, Verdict.WRONG),
        (CAUGHT, RAISES, RAISES, Verdict.UNKNOWN),
        (CAUGHT, "def f(x): return 1", RAISES, Verdict.WRONG),
        ("import io\nassert f(io.StringIO('ab')) == 'ab'", READS, READS, Verdict.UNKNOWN),
        ("assert f(2) == 4", FORGED, "def f(x): return 2 * x", Verdict.WRONG),
        ("assert f(2) == 4", OTHER, "def f(x): return 2 * x", Verdict.WRONG),
        ("assert f(2) == 4", OTHER, "def f(x): return 5", Verdict.WRONG),
    ],
)
def test_what_tests_cannot_do_with_objects_is_told_by_the_reference_solution(
    judge, test, program, solution, verdict
):
    found = judge(test, program, **({"reference_solution": solution} if solution else {}))
    assert found.verdict is verdict and ("reference solution" in found.reason) == (verdict is Verdict.UNKNOWN)
