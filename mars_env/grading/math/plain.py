"""Answers in a plain form before they are compared: both signs written out, words read."""

from __future__ import annotations

import re
from itertools import product

from mars_env.grading.math.nodes import Node, Unreadable, number, operators

_ARTICLES = re.compile(r"\b(?:the|a|an)\b")
_NO_SOLUTION = frozenset(
    (
        "no solution",
        "no solutions",
        "none",
        "empty set",
        "no real solution",
        "no real solutions",
        "no such number",
    )
)
SYNONYMS = {"dne": "does not exist", "undefined": "undefined", "infinite": "infinity", "∞": "infinity"}
_NUMBER_WORDS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15,
    "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20,
}  # fmt: skip


def plain(node: Node) -> Node:
    """Signs that are both written out, remarks on integer parameters set apart, word numbers read."""
    if node.kind == "list" and (declared := parameters(node.args)):
        rest = tuple(item for item in node.args if item not in declared)
        if rest:
            main = rest[0] if len(rest) == 1 else Node("list", rest, node.value)
            return Node("where", (plain(main), *declared))
    if node.kind == "where" and all(_says_nothing(remark) for remark in node.args[1:]):
        return plain(node.args[0])
    if node.kind == "text":
        return _words(node)
    if node.kind == "relation" and (shown := _relation_as_value(node)) is not None:
        return plain(shown)
    if node.kind == "builder" and parameters(node.args[1:]):
        return Node("where", node.args)
    if node.kind == "mul" and node.args[1].kind == "matrix":
        rows = (tuple(Node("mul", (node.args[0], cell)) for cell in row.args) for row in node.args[1].args)
        return Node("matrix", tuple(Node("row", row) for row in rows))
    if node.kind in ("list", "set"):
        return Node(node.kind, tuple(variant for item in node.args for variant in _signs(item)), node.value)
    variants = _signs(node)
    joiner = "and" if "!=" in operators(node) else "or"
    return variants[0] if len(variants) == 1 else Node("list", tuple(variants), joiner)


def _relation_as_value(node: Node) -> Node | None:
    """The set that ``x`` lies in, the rule of a map, the assignments of ``x = y = 2``."""
    relations, (left, *_, last) = operators(node), node.args
    if relations == ("in",) and left.kind in ("sym", "group") and last.kind in ("set", "group", "setop"):
        return last if left.kind == "sym" or last.kind == "set" else None
    if relations == ("mapsto",) and left.kind == "sym":
        return last
    names = node.args[:-1]
    if set(relations) == {"="} and len(names) > 1 and all(name.kind == "sym" for name in names):
        return Node("list", tuple(Node("relation", (name, last), ("=",)) for name in names), "comma")
    return None


def parameters(items: tuple[Node, ...]) -> list[Node]:
    """The items that only say that a name is an integer."""
    return [
        item
        for item in items
        if item.kind == "relation"
        and item.value == ("in",)
        and item.args[0].kind == "sym"
        and item.args[1].value in ("Z", "N")
    ]


def _says_nothing(remark: Node) -> bool:
    """``for all x`` and ``x in R`` restrict nothing."""
    return remark.kind == "sym" or (operators(remark) == ("in",) and remark.args[1].value == "R")


def _words(node: Node) -> Node:
    text = normal_text(node.name)
    if text in _NUMBER_WORDS:
        return number(_NUMBER_WORDS[text])
    if text in _NO_SOLUTION:
        return Node("const", value="empty")
    if text in ("infinity", "positive infinity"):
        return Node("const", value="inf")
    if text in ("all real numbers", "all reals", "real numbers"):
        return Node("const", value="R")
    return node


def _signs(node: Node) -> list[Node]:
    count = {"pm": 0, "mp": 0}
    for child in node.walk():
        if child.kind in count:
            count[child.kind] += 1
    if not any(count.values()):
        return [node]
    independent = 1 if count["mp"] else count["pm"]
    if independent > 4:
        raise Unreadable("too many signs that are both")
    variants = []
    for choice in product((False, True), repeat=independent):
        flags = list(choice)
        variants.append(_choose(node, flags, bool(count["mp"])))
    return variants


def _choose(node: Node, flags: list[bool], linked: bool) -> Node:
    if node.kind in ("pm", "mp"):
        negative = flags[0] if linked else flags.pop(0)
        inner = _choose(node.args[0], flags, linked)
        return Node("neg", (inner,)) if negative == (node.kind == "pm") else inner
    if not node.args:
        return node
    return Node(
        node.kind, tuple(_choose(child, flags, linked) for child in node.args), node.value, node.decimal
    )


def normal_text(text: str) -> str:
    """Words as they are compared: without case, articles and punctuation."""
    text = _ARTICLES.sub(" ", text.casefold().replace("-", " "))
    text = " ".join(re.sub(r"[^\w\s]", "", text).split())
    return SYNONYMS.get(text, text)
