r"""One rule: an answer is at least as finished as its reference.

Without it, copying the question pays: ``882 - 27`` equals 855, ``\binom{5}{2}`` equals 10 and ``2x = 10``
means ``x = 5``, but none of them is an answer. The rule takes the numbers of an answer one by one (members of
lists, ends of intervals, right sides), and what each leaves to compute; docs/grading.md has it as a table.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations

from mars_env.grading.math.evaluate import digits_needed, free_symbols, is_complex, value_at
from mars_env.grading.math.exact import WORKER_BITS, Undefined, exact_value
from mars_env.grading.math.nodes import TRIGONOMETRY, Node, OverLimit, Unreadable, num, operators, word_set
from mars_env.grading.math.shapes import as_family, is_label, is_name, is_residue, names_matrix
from mars_env.grading.math.units import Unit, letter_unit, value_and_unit

_RATIONAL = word_set("/ ^ product scientific")
_CLOSED = _RATIONAL | word_set("root log constant sum")
_CONTAINERS = word_set("list set group matrix row setop builder where mod approx")
_MULTIPLES = word_set("neg mul quantity")
_SAME = {"binom": "factorial", "factorial2": "factorial", "ln": "log", "exp": "log"} | dict.fromkeys(
    TRIGONOMETRY, "trig"
)
_MAX_TERMS = 8  # a sum of more is not finished


def finished(reference: Node, answer: Node, *, integer: bool = False) -> bool:
    r"""Whether an answer leaves no more to compute than a reference of the same value.

    Example:
        >>> from mars_env.grading.math.parser import read_answer
        >>> def done(a, b, **how): return finished(read_answer(a), read_answer(b), **how)
        >>> done("5", "2+3"), done("5", r"\frac{10}{2}"), done("5", r"\frac{10}{2}", integer=True)
        (False, True, False)
        >>> done("x = 5", "2x = 10"), done("x < 3", "2x + 1 < 7"), done("x < 3", r"(-\infty, 3)")
        (False, False, True)
    """
    rounded = any(part.decimal for part in reference.walk())
    if is_residue(reference):
        reference = as_family(reference)
    theirs = [node for ways in _numbers(reference, is_name, rounded=True) for node in ways]
    # of several inequalities that must hold at once, each should say something
    bounds = [part for part in answer.args if {*operators(part)} & {*"<>", "<=", ">=", "!="}]
    joint = len(bounds) > 1 and answer.value != "or"
    return reference == answer or all(
        any(_suffices(peer, node, integer) for node in ways for peer in _peers(node, theirs, joint))
        for ways in _numbers(answer, is_label, rounded=rounded)
    )


def _numbers(node: Node, named: Callable[[Node], bool], *, rounded: bool) -> Iterator[tuple[Node, ...]]:
    """The numbers and expressions that an answer consists of, each in all ways that a chain writes it."""
    parts: tuple[Node, ...] = ()
    if node.kind == "relation":
        ways = _values(node, named, rounded)
        if ways and not _has_parts(ways[-1]):
            yield ways
        else:
            parts = ways[-1:] or tuple(side for side in node.args if not _is_bare_name(side))
    elif _has_parts(node):
        parts = node.args
    elif node.kind not in ("sym", "text", "dots"):
        yield (node,)
    for part in parts:
        yield from _numbers(part, named, rounded=rounded)


def _has_parts(node: Node) -> bool:
    inside = node.walk() if node.kind in _MULTIPLES else (node,)
    return any(part.kind in _CONTAINERS for part in inside)


def _values(relation: Node, named: Callable[[Node], bool], rounded: bool) -> tuple[Node, ...]:
    """The values that ``x = 2 + 3 = 5`` gives to a name; the relation itself if it is still to be solved."""
    signs, args = operators(relation), relation.args
    if not set(signs) <= {"=", "~", "=="}:
        to_solve = any(free_symbols(side) and not _is_bare_name(side) for side in args)
        return (relation,) if to_solve else ()
    if "~" in signs[1:] and not rounded:
        args = args[: signs.index("~") + 1]
    last = args[-1].args[-1] if args[-1].kind == "mul" else args[-1]
    values = tuple(arg for arg in args if not (named(arg) or names_matrix(arg, last)))
    if len(values) == len(args) and any(map(free_symbols, args)):
        return (relation,)
    return values


def _is_bare_name(node: Node) -> bool:
    """``x``, ``f(x)``, ``|x|`` and ``(x, y)``."""
    if node.kind == "group" or node.value == "abs":
        return all(map(_is_bare_name, node.args))
    return node.kind == "sym" or (node.kind == "call" and not node.name[1:2].isalpha())


def _peers(node: Node, theirs: list[Node], joint: bool) -> list[Node]:
    value = exact_value(node, WORKER_BITS)
    same = [other for other in theirs if exact_value(other, WORKER_BITS) == value]
    return same if joint and value is not None else same or theirs or [node]


def _suffices(reference: Node, answer: Node, integer: bool) -> bool:
    value, of = value_and_unit(reference)
    if isinstance(of, Unit):
        answer = letter_unit(answer)[0]
    held, left = _work(reference), _work(answer)
    if "name" in held:
        return "series" not in left - held
    exact = exact_value(value, WORKER_BITS)
    allowed = _CLOSED if exact is None else _RATIONAL
    if exact is not None and not held:
        allowed = frozenset() if integer else word_set("/ scientific")
        if of == "deg":
            allowed = word_set("/ product constant")  # radians
    if is_complex(value) and Node("const", value="e") in value.walk():
        allowed |= {"trig"}
    return left <= held | allowed and _sums(answer) <= max(1, _sums(reference))


def _work(node: Node) -> frozenset[str]:
    """The operations that a number leaves to compute: none for a literal with its sign and unit."""
    kind = node.kind
    if kind in ("sym", "const", "based", "sum", "prod"):
        return word_set(_work_of_leaf(node))
    if _is_scientific(node):
        return word_set("scientific")
    sides = _factors(node) if kind in ("mul", "div") else (list(node.args), [])
    works = [[_work(part) for part in side] for side in sides]
    inner = frozenset[str]().union(*works[0], *works[1])
    if "name" in inner or kind in ("num", "relation", "neg", "pm", "mp", "quantity"):
        return inner
    if kind == "add":
        return inner | _work_of_sum(node)
    if kind in ("mul", "div"):
        literals = any(side.count(frozenset()) > 1 for side in works)
        product = max(map(len, works)) > 1
        return inner | word_set("/" * bool(works[1]) + " product" * product + " arithmetic" * literals)
    if kind in ("ratio", "time"):  # 7:12 is read as a time
        return inner | {"/"}
    name = _SAME.get(node.name, node.name) if kind == "call" else kind
    undone = False
    if kind == "pow":
        exponent = exact_value(node.args[1], WORKER_BITS)
        name = "^" if exponent is not None and exponent.denominator == 1 else "root"
        undone = bool(works[0][0] & {"sum", "product", "root"})
    undone = undone or (name in ("root", "log") and _is_rational(node))
    return inner | {name, "arithmetic"} if undone else inner | {name}


def _work_of_leaf(node: Node) -> str:
    if node.kind == "sym":
        return "name"
    if node.kind == "const":
        return "constant" if node.value in ("pi", "e", "i") else ""
    if node.kind == "based":
        return "" if node.name.endswith("_10") else "base"
    return "series name" if free_symbols(node) else "series"


def _work_of_sum(node: Node) -> frozenset[str]:
    if node.value == "mixed":
        return word_set("/")
    if len({term.value for term in node.args if term.kind == "quantity"}) == len(node.args):
        return frozenset()  # 5 hours 30 minutes
    pairs = combinations(node.args, 2)
    alike = len(node.args) > _MAX_TERMS or any(_is_rational(Node("div", pair)) for pair in pairs)
    return word_set("sum arithmetic" if alike else "sum")


def _factors(node: Node) -> tuple[list[Node], list[Node]]:
    if node.kind not in ("mul", "div", "neg", "quantity"):
        return [node], []
    top, bottom = _factors(node.args[0])
    if node.kind in ("mul", "div"):
        more, below = _factors(node.args[1])
        if node.kind == "div":
            more, below = below, more
        top, bottom = top + more, bottom + below
    return top, bottom


def _is_scientific(node: Node) -> bool:
    r"""``3.5 \cdot 10^8``, or ``10^8``."""
    if node.kind == "mul" and node.args[0].kind == "num":
        node = node.args[1]
    if node.kind != "pow" or node.args[0] != num(10):
        return False
    exponent = node.args[1].args[0] if node.args[1].kind == "neg" else node.args[1]
    return exponent.kind == "num"


def _sums(node: Node) -> int:
    return sum(part.kind == "add" for part in node.walk())


def _is_rational(node: Node) -> bool:
    try:
        value = value_at(node, {}, digits_needed(node), real=not is_complex(node))[0]
    except (Undefined, Unreadable, OverLimit):
        return False
    if abs(value.imag) > 10.0**-35:
        return False
    scaled = Fraction(int(value.real * 10**40), 10**40)
    return abs(scaled - scaled.limit_denominator(10**6)) < Fraction(1, 10**35)
