r"""Recognises the shape of an answer, and puts it into the plain form in which answers are compared."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product, repeat

from mars_env.grading.math.evaluate import free_symbols
from mars_env.grading.math.nodes import EXPRESSIONS, Node, Unreadable, num, operators, substitute, word_set
from mars_env.grading.math.spelled import spelled_number

_ARTICLES = re.compile(r"\b(?:the|a|an)\b")
_FILLERS = re.compile(r"\b(?:is|are|at|value|of|equals?|to|point)\b")
_ROMAN = {"first": "i", "second": "ii", "third": "iii", "fourth": "iv"}
_FORMS = re.compile(r"\b(conver|diver)g(?:e|ent|ence)\b|\b(absolute|conditional|uniform)\b", re.I)
_NO_SOLUTION = re.compile(
    r"none|empty set|(?:there (?:is|are|exists?) )?no (?:such |(?:real|integer|rational|positive|valid) )?"
    r"(?:solutions?|roots?|numbers?|values?|integers?)(?: exists?)?"
)
SYNONYMS = {
    "dne": "does not exist", "infinite": "infinity", "∞": "infinity",
    "infinitely many solutions": "infinitely many", "max": "maximum", "min": "minimum",
}  # fmt: skip
_NUMBERS = word_set("Z N Q R C")
_LABELLED = word_set("sin cos tan abs floor ceil max min gcd lcm cross")


def is_label(node: Node) -> bool:
    """Whether a left side names what is asked for: that of ``m + n = 5``, but not that of ``2x = 10``."""
    if node.kind in ("sym", "text"):
        return True
    if node.kind == "call" and len(node.name.rstrip("'")) == 1:
        return True
    if node.kind == "call" and node.name in _LABELLED:  # not b x a, which is -(a x b)
        return all(child.kind in ("sym", "matrix") for child in node.args)
    if node.kind in ("group", "ratio", "matrix", "row"):
        names = [part.name for part in node.walk() if part.value in ("x", "y", "z")]  # the last first
        return names == sorted(names, reverse=True) and all(map(is_label, node.args))
    return node.kind in EXPRESSIONS and len(free_symbols(node)) >= 2 and not _has_coefficient(node)


def _has_coefficient(node: Node) -> bool:
    if node.kind == "num":
        return True
    children = node.args[:1] if node.kind in ("pow", "div") and node.args[1].kind == "num" else node.args
    return node.kind != "call" and any(map(_has_coefficient, children))


def is_name(node: Node) -> bool:
    """Whether a left side is only a name: ``x``, ``f(x)``, ``(x, y)``, but not ``x + y``."""
    if node.kind in ("group", "ratio"):
        return all(map(is_name, node.args))
    return node.kind in ("sym", "text", "call") and is_label(node)


def is_equation(node: Node) -> bool:
    """``x = 5``, ``x = 5/3 ~ 1.67``."""
    return node.kind == "relation" and {*operators(node)} <= {"=", "~"}


def value_of(node: Node) -> Node:
    """The value that ``x = 5`` gives a name; any other node itself."""
    return node.args[1] if operators(node) == ("=",) and is_label(node.args[0]) else node


def names_collection(node: Node) -> bool:
    """Whether it says what a set, a list or a tuple is."""
    return value_of(node) is not node and node.args[1].kind in ("list", "set", "group", "matrix")


def names_matrix(left: Node, right: Node) -> bool:
    """``A^{-1}``, ``A^2`` and the like before a matrix."""
    return right.kind == "matrix" and left.kind == "pow" and left.args[0].kind == "sym"


def in_base(node: Node) -> tuple[str, str] | None:
    """The digits of an integer and its base, empty if none is written; None for anything else."""
    if node.kind == "neg" and (inner := in_base(node.args[0])):
        return f"-{inner[0]}", inner[1]
    if node.kind == "based":
        digits, _, base = node.name.partition("_")
        return digits, base
    return (str(node.value), "") if node.kind == "num" and not node.decimal else None


def is_residue(node: Node) -> bool:
    """``3 mod 5``, or a name that is congruent to it."""
    if {*operators(node)} == {"=="} and is_label(node.args[0]):
        node = node.args[-1]
    return node.kind == "mod"


def as_family(residue: Node) -> Node:
    """``3 mod 5``, or ``n`` that is congruent to it, as ``3 + 5k`` for every integer ``k``."""
    value, modulus = (residue.args[-1] if residue.kind == "relation" else residue).args
    k = Node("sym", value="k")
    every = Node("add", (value, Node("mul", (modulus, k))))
    return Node("where", (every, Node("relation", (k, Node("const", value="Z")), ("in",))))


def integer_names(remarks: Sequence[Node]) -> list[str]:
    """The names that remarks say are integers; none if they say anything else."""
    names = parameters(remarks)
    return [remark.args[0].name for remark in names] if len(names) == len(remarks) else []


def renamed(node: Node, old: tuple[Node, ...], new: tuple[Node, ...]) -> Node:
    """A function's rule with its argument renamed; `Unreadable` if it has several, or the name is taken."""
    if len(old + new) > 2 or {old[0].kind, new[0].kind} != {"sym"} or new[0].name in free_symbols(node):
        raise Unreadable("a function of other arguments")
    return substitute(node, old[0], new[0])


def items_of(node: Node) -> tuple[Node, ...]:
    """The members of a collection; of anything else, the node itself."""
    return node.args if node.kind in ("list", "set") else (node,)


def is_mapping(node: Node) -> bool:
    """Whether a list assigns values to several variables."""
    names = [item.args[0] for item in node.args if operators(item) == ("=",)] if node.kind == "list" else []
    if not names or len(names) != len(node.args) or {name.kind for name in names} - {"sym", "text"}:
        return False
    return len({*names}) == len(names) > 1


def same_label(first: Node, second: Node) -> bool:
    """Whether two names mean the same: "the radius is", "Radius" and ``r``."""
    if "text" not in (first.kind, second.kind) or {first.kind, second.kind} - {"sym", "text"}:
        return first == second
    name, other = (normal_text(_FILLERS.sub(" ", node.name.casefold())) for node in (first, second))
    return name == other or (first.kind != second.kind and min(name, other, key=len) == name[0] == other[0])


def values_by_name(node: Node) -> tuple[Node, ...] | None:
    """The values of ``x = 1, y = 2``, in the order of the variables' names; None for anything else."""
    if not is_mapping(node) or node.value == "or" or any(item.args[0].kind == "text" for item in node.args):
        return None
    return tuple(item.args[1] for item in sorted(node.args, key=lambda item: item.args[0].name))


def in_order(node: Node, ordered: bool | None) -> Node:
    """A list as a tuple if order must count, a tuple as a list if it must not."""
    if ordered is True and node.kind == "list" and node.value != "or" and not is_mapping(node):
        return Node("group", items_of(node), ("(", ")"))
    if ordered is False and node.kind == "group":
        return Node("list", node.args, "comma")
    return node


def without_domain(node: Node) -> Node:
    r"""``x + 1`` for ``x + 1, x \ne 1``; any other node unchanged."""
    if node.kind != "list" or [operators(item) for item in node.args[1:]] != [("!=",)]:
        return node
    value, (name, _) = node.args[0], node.args[1].args
    of = value.args[-1] if is_equation(value) else value
    return value if of.kind in EXPRESSIONS and free_symbols(of) == free_symbols(name) else node


def normal(node: Node) -> Node:
    """The form in which an answer is compared: double signs expanded, remarks apart, numbers in digits."""
    if node.kind == "list" and node.value != "or" and (declared := _declared(node.args)):
        rest = tuple(item for item in node.args if item not in declared)
        main = rest[0] if len(rest) == 1 else replace(node, args=rest)
        return normal(Node("where", (main, *declared)))
    if node.kind == "where":
        main = normal(node.args[0])
        remarks = [part for part in node.args[1:] if not _says_nothing(part, main)]
        return Node("where", (main, *remarks)) if remarks else main
    if node.kind == "text":
        return _words(node)
    if node.kind == "relation" and (value := _relation_as_value(node)) is not None:
        return normal(value)
    if node.kind == "builder" and parameters(items_of(node.args[1])):
        head, condition = node.args
        named = head.kind == "sym" and condition.kind == "list"
        return normal(condition if named else Node("where", node.args))
    if node.kind == "relation":
        node = replace(node, args=tuple(_by_cases(_scaled_matrix(part)) for part in node.args))
    node = _by_cases(_scaled_matrix(node))
    if node.kind in ("list", "set"):
        return replace(node, args=tuple(variant for item in node.args for variant in _signs(item)))
    variants = _signs(node)
    joiner = "and" if "!=" in operators(node) else "or"
    return variants[0] if len(variants) == 1 else Node("list", tuple(variants), joiner)


def _scaled_matrix(node: Node) -> Node:
    if node.kind == "mul" and node.args[0].kind in EXPRESSIONS and node.args[1].value == ("(", ")"):
        return Node("group", tuple(Node("mul", (node.args[0], x)) for x in node.args[1].args), ("(", ")"))
    if node.kind != "mul" or node.args[1].kind != "matrix":
        return node
    rows = (tuple(Node("mul", (node.args[0], cell)) for cell in row.args) for row in node.args[1].args)
    return Node("matrix", tuple(Node("row", row) for row in rows))


def _by_cases(node: Node) -> Node:
    """Cases with the condition "otherwise" written out; any other node unchanged."""
    if node.kind != "list" or node.args[-1].args[1:] != (Node("text", value="otherwise"),):
        return node
    *cases, last = node.args
    others = Node("list", tuple(part for case in cases for part in case.args[1:]), "or")
    rest = Node("setop", (Node("const", value="R"), others), "setminus")
    return Node("list", (*cases, Node("where", (last.args[0], rest))), "and")


def _relation_as_value(node: Node) -> Node | None:
    """The set that has ``x``; ``x = 5`` for ``5 = x``, two for ``x = y = 2``, ``y > 1`` for ``f(x) > 1``."""
    relations, (left, *_, last) = operators(node), node.args
    if relations == ("in",) and last.kind in ("set", "group", "setop"):
        return last if left.kind == "sym" or last.kind == "set" else None
    if relations == ("=",) and last.kind == "sym" and left.kind in EXPRESSIONS and not free_symbols(left):
        return Node("relation", (last, left), relations)
    names = node.args[:-1]
    if set(relations) == {"="} and len(names) > 1 and all(name.kind == "sym" for name in names):
        return Node("list", tuple(Node("relation", (name, last), ("=",)) for name in names), "comma")
    if {*relations} <= {"<", ">", "<=", ">="} and any(map(_is_function, node.args)):
        bounded = tuple(Node("sym", value="y") if _is_function(part) else part for part in node.args)
        return Node("relation", bounded, relations)
    return None


def _is_function(node: Node) -> bool:
    """``f(x)``."""
    return node.kind == "call" and len(node.name) == 1 and all(part.kind == "sym" for part in node.args)


def parameters(items: Sequence[Node]) -> list[Node]:
    """The items that say only that a name is an integer."""
    of = (item for item in items if operators(item) == ("in",) and item.args[1].value in ("Z", "N"))
    return [item for item in of if item.args[0].kind == "sym"]


def _declared(items: tuple[Node, ...]) -> list[Node]:
    """The items that say only of what kind a name in another item is: an integer, a real number."""
    of = [item for item in items if operators(item) == ("in",) and item.args[1].value in _NUMBERS]
    used = {part for item in items if item not in of for part in item.walk() if part.kind == "sym"}
    return [item for item in of if item.args[0] in used]


def _says_nothing(remark: Node, main: Node) -> bool:
    """``for all x`` and ``x in R`` restrict nothing, nor does ``x in Q`` a function ``f(x)``."""
    if operators(remark) != ("in",):
        return remark.kind == "sym"
    first = items_of(main)[0]
    defined = is_equation(first) and _is_function(first.args[0]) and remark.args[0] in first.args[0].args
    return remark.args[1].value == "R" or (defined and remark.args[1].value in _NUMBERS)


def _words(node: Node) -> Node:
    text = normal_text(node.name)
    if (value := spelled_number(text)) is not None:
        return num(value)
    if _NO_SOLUTION.fullmatch(text):
        return Node("const", value="empty")
    if text in ("infinity", "positive infinity"):
        return Node("const", value="inf")
    if text in ("all real numbers", "all reals", "real numbers"):
        return Node("const", value="R")
    return node


def _signs(node: Node) -> list[Node]:
    r"""A node with each choice of its double signs, linked if one is a minus-plus, or on several sides."""
    signs = [child.kind for child in node.walk() if child.kind in ("pm", "mp")]
    if not signs:
        return [node]
    if len(signs) > 4:
        raise Unreadable("too many double signs")
    sides = [side for side in node.args if any(child.kind == "pm" for child in side.walk())]
    if "mp" in signs or (node.kind == "relation" and len(sides) > 1):
        return [_choose(node, repeat(plus)) for plus in (True, False)]
    return [_choose(node, iter(choice)) for choice in product((True, False), repeat=len(signs))]


def _choose(node: Node, choice: Iterator[bool]) -> Node:
    if node.kind in ("pm", "mp"):
        plus = next(choice) == (node.kind == "pm")
        inner = _choose(node.args[0], choice)
        return inner if plus else Node("neg", (inner,))
    return replace(node, args=tuple(_choose(child, choice) for child in node.args))


def normal_text(text: str) -> str:
    """Words in the form in which they are compared: without case, articles and punctuation."""
    text = re.sub(r"n['’]t\b", " not", text.casefold().replace("-", " "))
    text = _FORMS.sub(lambda word: f"{word[1]}ges" if word[1] else f"{word[2]}ly", text)
    bare = " ".join(re.sub(r"[^\w\s]", "", _ARTICLES.sub(" ", text)).split()) or text.strip()
    bare = re.sub(r"^(first|second|third|fourth) (\w+)$", lambda nth: f"{nth[2]} {_ROMAN[nth[1]]}", bare)
    bare = re.sub(r"^(absolutely|conditionally|uniformly) (\w+)$", r"\2 \1", bare)
    return SYNONYMS.get(bare, bare)


def as_interval(node: Node) -> Node | None:
    """``a < x < b`` as an interval in brackets."""
    if node.kind == "group" and len(node.args) == 2:
        return node
    ops, args = operators(node), node.args
    if len(ops) != 2 or args[1].kind != "sym" or not {*ops} <= {"<", "<="}:
        return None
    return Node("group", (args[0], args[2]), ("[" if "=" in ops[0] else "(", "]" if "=" in ops[1] else ")"))
