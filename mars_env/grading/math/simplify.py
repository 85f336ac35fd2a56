"""Puts answers into a plain form before they are compared: expands double signs, reads words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product, repeat

from mars_env.grading.math.nodes import EXPRESSIONS, Node, Unreadable, num, operators
from mars_env.grading.math.spelled import spelled_number

_ARTICLES = re.compile(r"\b(?:the|a|an)\b")
_NO_SOLUTION = re.compile(
    r"none|empty set|(?:there (?:is|are|exists?) )?no (?:such |(?:real|integer|rational|positive|valid) )?"
    r"(?:solutions?|roots?|numbers?|values?|integers?)(?: exists?)?"
)
SYNONYMS = {"dne": "does not exist", "undefined": "undefined", "infinite": "infinity", "∞": "infinity"}


def simplified(node: Node) -> Node:
    """Expand double signs, separate remarks on integer parameters, and read numbers in words."""
    if node.kind == "list" and (declared := parameters(node.args)):
        rest = tuple(item for item in node.args if item not in declared)
        if rest:
            main = rest[0] if len(rest) == 1 else Node("list", rest, node.value)
            return Node("where", (simplified(main), *declared))
    if node.kind == "list" and node.value != "or" and len(kept := _without_reals(node.args)) < len(node.args):
        return simplified(kept[0] if len(kept) == 1 else Node("list", kept, node.value))
    if node.kind == "where" and all(_says_nothing(remark) for remark in node.args[1:]):
        return simplified(node.args[0])
    if node.kind == "text":
        return _words(node)
    if node.kind == "relation" and (shown := _relation_as_value(node)) is not None:
        return simplified(shown)
    if (rewritten := _rewritten(node)) is not None:
        return simplified(rewritten)
    if node.kind == "builder" and parameters(node.args[1:]):
        return Node("where", node.args)
    if node.kind == "relation":
        node = Node("relation", tuple(map(_scaled_matrix, node.args)), node.value)
    node = _scaled_matrix(node)
    if node.kind in ("list", "set"):
        return Node(node.kind, tuple(variant for item in node.args for variant in _signs(item)), node.value)
    variants = _signs(node)
    joiner = "and" if "!=" in operators(node) else "or"
    return variants[0] if len(variants) == 1 else Node("list", tuple(variants), joiner)


def _scaled_matrix(node: Node) -> Node:
    """A number times a matrix or a tuple as one matrix or tuple; any other node unchanged."""
    if node.kind == "mul" and node.args[0].kind in EXPRESSIONS and node.args[1].value == ("(", ")"):
        return Node("group", tuple(Node("mul", (node.args[0], x)) for x in node.args[1].args), ("(", ")"))
    if node.kind != "mul" or node.args[1].kind != "matrix":
        return node
    rows = (tuple(Node("mul", (node.args[0], cell)) for cell in row.args) for row in node.args[1].args)
    return Node("matrix", tuple(Node("row", row) for row in rows))


def _relation_as_value(node: Node) -> Node | None:
    """The set that contains ``x``, the assignments of ``x = y = 2``."""
    relations, (left, *_, last) = operators(node), node.args
    if relations == ("in",) and left.kind in ("sym", "group") and last.kind in ("set", "group", "setop"):
        return last if left.kind == "sym" or last.kind == "set" else None
    names = node.args[:-1]
    if set(relations) == {"="} and len(names) > 1 and all(name.kind == "sym" for name in names):
        return Node("list", tuple(Node("relation", (name, last), ("=",)) for name in names), "comma")
    return None


def _rewritten(node: Node) -> Node | None:
    r"""``5 = x`` as ``x = 5``, ``f(x) > 1`` as ``y > 1``; otherwise None."""
    args = node.args
    if (
        node.kind == "add"
        and args[0].value == "R"
        and args[1].kind == "neg"
        and args[1].args[0].kind == "set"
    ):
        return Node("setop", (args[0], args[1].args[0]), "setminus")
    if operators(node) == ("=",) and args[1].kind == "sym" and args[0].kind in EXPRESSIONS:
        named = any(part.kind == "sym" for part in args[0].walk())
        return None if named else Node("relation", (args[1], args[0]), ("=",))
    if operators(node) and not {*operators(node)} - {"<", ">", "<=", ">="} and any(map(_is_function, args)):
        bounded = tuple(Node("sym", value="y") if _is_function(part) else part for part in args)
        return Node("relation", bounded, operators(node))
    return None


def _is_function(node: Node) -> bool:
    """``f(x)``."""
    return node.kind == "call" and len(node.name) == 1 and all(part.kind == "sym" for part in node.args)


def parameters(items: tuple[Node, ...]) -> list[Node]:
    """The items that say only that a name is an integer."""
    of_integers = (item for item in items if operators(item) == ("in",) and item.args[1].value in ("Z", "N"))
    return [item for item in of_integers if item.args[0].kind == "sym"]


def _without_reals(items: tuple[Node, ...]) -> tuple[Node, ...]:
    """The items without those that say only that a name in another item is a real number."""
    reals = [item for item in items if operators(item) == ("in",) and item.args[1].value == "R"]
    rest = [item for item in items if item not in reals]
    used = {part for item in rest for part in item.walk() if part.kind == "sym"}
    return tuple(item for item in items if item in rest or item.args[0] not in used)


def _says_nothing(remark: Node) -> bool:
    """``for all x`` and ``x in R`` restrict nothing."""
    return remark.kind == "sym" or (operators(remark) == ("in",) and remark.args[1].value == "R")


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
    """A node with each choice of its double signs, which are linked if one of them is a minus-plus."""
    signs = [child.kind for child in node.walk() if child.kind in ("pm", "mp")]
    if len(signs) > 4:
        raise Unreadable("too many double signs")
    if "mp" in signs:
        return [_choose(node, repeat(plus)) for plus in (True, False)]
    return [_choose(node, iter(choice)) for choice in product((True, False), repeat=len(signs))]


def _choose(node: Node, choice: Iterator[bool]) -> Node:
    if node.kind in ("pm", "mp"):
        plus = next(choice) == (node.kind == "pm")
        inner = _choose(node.args[0], choice)
        return inner if plus else Node("neg", (inner,))
    if not node.args:
        return node
    return Node(node.kind, tuple(_choose(child, choice) for child in node.args), node.value, node.decimal)


def normal_text(text: str) -> str:
    """Words in the form in which they are compared: without case, articles and punctuation."""
    text = text.casefold().replace("-", " ")
    kept = " ".join(re.sub(r"[^\w\s]", "", _ARTICLES.sub(" ", text)).split()) or text.strip()
    return SYNONYMS.get(kept, kept)
