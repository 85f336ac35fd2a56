r"""Recognises the shape of an answer: a name, a collection, an assignment, a progression, an interval."""

from __future__ import annotations

import math
import re
from itertools import pairwise, permutations

from mars_env.grading.math.evaluate import free_symbols
from mars_env.grading.math.exact import exact_value
from mars_env.grading.math.factors import UNKNOWN_FUNCTIONS
from mars_env.grading.math.nodes import EXPRESSIONS, Node, Unreadable, number, operators, substitute, words
from mars_env.grading.math.simplify import parameters

_LABELLED = words("sin cos tan abs floor ceil det max min gcd lcm")
"""Functions of a name that may be what is asked for."""
_CONSTANT = re.compile(r"(?:[A-Da-dkK]|alpha|beta|lambda|mu)(?:_\d)?")
"""Usual names of an arbitrary constant."""
_PARAMETERS = words("k s t u lambda mu")
"""Names of a parameter that a problem seldom gives."""


def has_dots(node: Node) -> bool:
    """Whether it contains dots for omitted items."""
    return any(child.kind == "dots" for child in node.walk())


def is_name(node: Node) -> bool:
    """Whether a left side is only a name: ``x``, ``f(x)``, ``(x, y)``, but not ``x + y``."""
    plain = node.kind in ("sym", "text", "call") or _is_ratio_of_segments(node)
    plain = plain or (node.kind in ("group", "ratio") and all(map(is_name, node.args)))
    return plain and is_label(node)


def _is_ratio_of_segments(node: Node) -> bool:
    """``NO/BO``: a ratio of two names in capital letters."""
    return node.kind == "div" and all(
        part.kind == "sym" and len(part.name) > 1 and part.name.isalpha() and part.name.isupper()
        for part in node.args
    )


def in_base(node: Node) -> tuple[str, str] | None:
    """The digits of an integer and its base, empty if none is written; None for anything else."""
    if node.kind == "neg" and (inner := in_base(node.args[0])):
        return f"-{inner[0]}", inner[1]
    if node.kind == "based":
        digits, _, base = node.name.partition("_")
        return digits, base
    return (str(node.value), "") if node.kind == "num" and not node.decimal else None


def without_base(node: Node) -> Node:
    """A number in another base as its value."""
    return node.args[0] if node.kind == "based" else node


def is_label(node: Node) -> bool:
    """Whether a left side names what is asked for, rather than being part of an equation to solve.

    Names are variables, functions of something, tuples of names, words, and expressions in two
    or more variables without coefficients (``m + n = 5``). ``2x = 10`` and ``2x + 3y = 6`` do not
    say that the answer is 10 or 6.
    """
    if node.kind in ("sym", "text"):
        return True
    if node.kind == "call" and (
        len(node.name.rstrip("'")) == 1 or (node.name[0] in UNKNOWN_FUNCTIONS and not node.name[1].isalpha())
    ):
        return True
    if node.kind == "call" and node.name in _LABELLED:
        return all(child.kind == "sym" or child.kind == "matrix" for child in node.args)
    if node.kind in ("group", "ratio"):
        return all(is_label(child) for child in node.args)
    return node.kind in EXPRESSIONS and len(free_symbols(node)) >= 2 and not _has_coefficient(node)


def _has_coefficient(node: Node) -> bool:
    """Whether a number occurs outside exponents and denominators, as in ``2x + 3y``."""
    if node.kind == "num":
        return True
    children = node.args[:1] if node.kind in ("pow", "div") and node.args[1].kind == "num" else node.args
    return node.kind != "call" and any(map(_has_coefficient, children))


def function_of(function: Node, variable: Node) -> bool:
    """Whether one node is a function, as ``f(x)``, and the other a variable, as ``y``."""
    return function.kind == "call" and variable.kind == "sym" and variable.name in ("y", "z")


def as_family(residue: Node) -> Node:
    """``3 mod 5``, or ``n`` that is congruent to it, as ``3 + 5k`` for every integer ``k``."""
    value, modulus = (residue.args[-1] if residue.kind == "relation" else residue).args
    k = Node("sym", value="k")
    every = Node("add", (value, Node("mul", (modulus, k))))
    return Node("where", (every, Node("relation", (k, Node("const", value="Z")), ("in",))))


def is_residue(node: Node) -> bool:
    """``3 mod 5``, or a name that is congruent to it."""
    if operators(node) == ("==",) and is_label(node.args[0]):
        node = node.args[1]
    return node.kind == "mod"


def renamed(node: Node, old: tuple[Node, ...], new: tuple[Node, ...]) -> Node:
    """A function's rule with its arguments renamed to match the other's."""
    if len(old) != len(new) or any(name.kind != "sym" for name in (*old, *new)):
        return node
    if free_symbols(node) & {name.name for name in {*new} - {*old}}:
        return node  # the name means something else there
    between = [Node("sym", value=f"argument {k}") for k in range(len(old))]
    for before, after in (*zip(old, between, strict=True), *zip(between, new, strict=True)):
        node = substitute(node, before, after)
    return node


def renamings(node: Node, old: list[str], new: list[str]) -> list[Node]:
    """The node with its parameters renamed in every order; few parameters only."""
    if len(old) != len(new) or len(old) > 3:
        return []
    names = tuple(Node("sym", value=name) for name in old)
    return [renamed(node, names, tuple(Node("sym", value=n) for n in order)) for order in permutations(new)]


def with_parameter_of(reference: Node, answer: Node) -> Node:
    """A tuple with the reference's name for its one parameter: ``(3t, 4t)`` for ``(3k, 4k)``."""
    names = free_symbols(reference), free_symbols(answer)
    if any(len(found) != 1 or not found <= _PARAMETERS for found in names):
        return answer
    if sum(bool(free_symbols(part)) for part in reference.args) < 2:
        return answer
    (theirs,), (own,) = names
    return substitute(answer, Node("sym", value=own), Node("sym", value=theirs))


def with_constant_of(reference: Node, answer: Node) -> Node:
    """An answer whose arbitrary constant has the reference's name for it: ``y = Ax`` for ``y = Cx``.

    The answer declares it, the reference has just one name that the answer lacks, and they share another.
    """
    (rule, _), (rule2, declared) = _rule(reference), _rule(answer)
    if operators(rule) != ("=",) or operators(rule2) != ("=",):
        return answer
    theirs, own = free_symbols(rule.args[1]), free_symbols(rule2.args[1])
    lacking, extra = theirs - own, own - theirs
    if len(lacking) != 1 or len(extra) != 1 or not theirs & own or not extra <= declared:
        return answer
    (name,), (name2,) = lacking, extra
    if not _CONSTANT.fullmatch(name):
        return answer
    return substitute(answer, Node("sym", value=name2), Node("sym", value=name))


def _rule(node: Node) -> tuple[Node, frozenset[str]]:
    """The one statement of a list that is no declaration, and the names declared to be real or complex."""
    said = [item for item in node.args if operators(item) == ("in",) and item.args[1].value in ("R", "C")]
    rest = [item for item in node.args if item not in said]
    if node.kind != "list" or len(rest) != 1:
        return node, frozenset()
    return rest[0], frozenset(item.args[0].name for item in said if item.args[0].kind == "sym")


def hours(time: Node) -> set[int]:
    """The hours of the day, from 0 to 23, that a time may mean: ``3:00`` is 3 or 15, and ``15:00`` is 15."""
    hour, half = int(time.pair[0]), time.pair[2]
    if not 1 <= hour <= 12:
        return {hour} if half != "a" else set()
    return {hour % 12 + later for later, name in ((0, "a"), (12, "p")) if half in ("", name)}


def time_ratio(node: Node, other: Node) -> Node:
    """A time without am or pm as a ratio, if it looks like one: in lowest terms, or beside a ratio."""
    if node.kind != "time":
        return node
    hour, minute, half = node.pair
    lowest = other.kind == "ratio" or math.gcd(int(hour), int(minute)) == 1
    if half or minute.startswith("0") or not lowest:
        raise Unreadable("a time cannot be compared with something else")
    return Node("ratio", (number(int(hour)), number(int(minute))))


def items_of(node: Node) -> tuple[Node, ...]:
    """The members of a collection; their values if all of them are about one variable."""
    if node.kind not in ("list", "set"):
        return _spread(node)
    items = node.args
    names = {item.args[0] for item in items if operators(item) == ("=",)}
    if len(names) == 1 and is_label(next(iter(names))) and operators(items[0]) == ("=",):
        # "x = 1, 2" as well as "x = 1, x = 2"
        items = tuple(item.args[1] if operators(item) == ("=",) else item for item in items)
    return tuple(x for item in items for x in _spread(item)) if len(items) > 1 else items


def _spread(item: Node) -> tuple[Node, ...]:
    r"""The values of ``x = \\pm 3`` or ``x \\in \\{1, 2\\}``, otherwise the node itself."""
    if item.kind == "list":
        return (item,) if item.value == "and" or is_mapping(item) else items_of(item)
    if (
        operators(item) in (("=",), ("in",))
        and item.args[1].kind in ("list", "set")
        and is_label(item.args[0])
    ):
        return item.args[1].args
    return (item,)


def names_collection(node: Node) -> bool:
    """Whether it says what a set, a list or a tuple is."""
    collections = ("list", "set", "group", "matrix")
    return operators(node) == ("=",) and is_label(node.args[0]) and node.args[1].kind in collections


def names_matrix(left: Node, right: Node) -> bool:
    """``A^{-1}``, ``A^2`` and the like before a matrix."""
    return right.kind == "matrix" and left.kind == "pow" and left.args[0].kind == "sym"


def is_mapping(node: Node) -> bool:
    """Whether a list assigns values to several variables."""
    if node.kind != "list" or not all(
        operators(item) == ("=",) and item.args[0].kind == "sym" for item in node.args
    ):
        return False
    return len({item.args[0] for item in node.args}) == len(node.args) > 1


def in_order(node: Node, ordered: bool | None) -> Node:
    """A list as a tuple if order must count, a tuple as a list if it must not."""
    if ordered is True and node.kind == "list" and node.value != "or" and not is_mapping(node):
        return Node("group", items_of(node), ("(", ")"))
    if ordered is False and node.kind == "group":
        return Node("list", node.args, "comma")
    return node


def plainly_listed(node: Node) -> bool:
    """Whether a list holds values without names."""
    return node.kind == "list" and all(item.kind in EXPRESSIONS for item in node.args)


def values_in_order(node: Node) -> tuple[Node, ...]:
    """The values of a list, with or without names, in the order written."""
    return tuple(value_of(item) for item in node.args)


def assigned(node: Node) -> list[Node] | None:
    """The values of ``x = 1, y = 2``, in the order of the variables' names."""
    if not is_mapping(node) or node.value == "or":
        return None
    return [item.args[1] for item in sorted(node.args, key=lambda item: item.args[0].name)]


def value_of(item: Node) -> Node:
    """An item's value, without its name."""
    return item.args[1] if operators(item) == ("=",) and is_label(item.args[0]) else item


def integer_names(remarks: list[Node]) -> list[str] | None:
    """The names that remarks say are integers; None if they say anything else."""
    if not all(remark in parameters(tuple(remarks)) for remark in remarks):
        return None
    return [remark.args[0].name for remark in remarks]


def progression(node: Node) -> tuple[object, object, Node | None] | None:
    r"""Start, step and end of ``1, 3, 5, \\ldots, 2n - 1``; None if it is not that simple."""
    node = node.args[1] if operators(node) == ("=",) and is_label(node.args[0]) else node
    items = node.args if node.kind in ("list", "set") else ()
    places = [k for k, item in enumerate(items) if item.kind == "dots"]
    if len(places) != 1 or places[0] < 2 or len(items) - places[0] > 2:
        return None
    shown = [exact_value(item) for item in items[: places[0]]]
    if any(value is None for value in shown):
        return None
    values = [value for value in shown if value is not None]
    steps = {b - a for a, b in pairwise(values)}
    end = items[-1] if places[0] < len(items) - 1 else None
    if len(steps) != 1 or (end is not None and has_dots(end)):
        return None
    return (values[0], node.kind == "set"), steps.pop(), end


def as_interval(node: Node) -> Node | None:
    """``a < x < b`` and ``x > a`` as an interval in brackets."""
    if node.kind == "group" and len(node.args) == 2:
        return node
    if node.kind != "relation":
        return None
    ops, args = operators(node), node.args
    if ops == ("in",) and args[0].kind == "sym":
        return as_interval(args[1])
    if len(ops) == 2 and args[1].kind == "sym" and set(ops) <= {"<", "<="}:
        return Node(
            "group", (args[0], args[2]), ("[" if ops[0] == "<=" else "(", "]" if ops[1] == "<=" else ")")
        )
    if len(ops) == 2 and args[1].kind == "sym" and set(ops) <= {">", ">="}:
        return Node(
            "group", (args[2], args[0]), ("[" if ops[1] == ">=" else "(", "]" if ops[0] == ">=" else ")")
        )
    return None
