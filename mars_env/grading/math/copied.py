r"""Whether an answer copies a formula of the problem: ``x^2-1`` is no answer to "Factor $x^2-1$"."""

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from mars_env.grading.math.nodes import Node, OverLimit, Unreadable, num, operators
from mars_env.grading.math.parser import read_answer
from mars_env.grading.math.shapes import without_domain
from mars_env.grading.math.tokens import escape_money

_DELIMITED = re.compile(
    r"\$\$.+?\$\$|(?<!\\)\$[^$]+\$|\\\(.+?\\\)|\\\[.+?\\\]|\\begin\{(\w+)(\*?)\}.+?\\end\{\1\2\}", re.DOTALL
)
_WORD = r"(?:\\[A-Za-z]+|(?:sqrt|sin|cos|tan|log|ln|pi)(?![A-Za-z])|[A-Za-z](?![A-Za-z])|[^\sA-Za-z])+"
_UNDELIMITED = re.compile(rf"(?<!\S){_WORD}(?:[ \t]+{_WORD})*(?!\S)")
"""A formula between words, as ``x^2 - 1`` in "Factor x^2 - 1."."""
_LISTS = ("relation", "list", "where")
"""Kinds of nodes whose parts are formulas of their own: the sides of an equation, the lines of a system."""
_ZEROS = (num(0), Node("neg", (num(0),)))


def is_copied(statement: str, reference: Node, answer: Node) -> bool:
    r"""Whether the whole of an answer is a formula of the problem, and the reference is not.

    Ask it of answers that equal the reference. What changes no value is ignored: adding 0, factors,
    denominators and exponents of 1, brackets, units, and the order of terms and factors. In a chain of
    equations the rest after any sign is an answer, too. Names, integers and decimals are no formulas.

    Example:
        >>> def copied(statement, r, a): return is_copied(statement, read_answer(r), read_answer(a))
        >>> copied(r"Expand $(x-1)^2$.", "x^2-2x+1", r"\frac{(x-1)^2}{1} + 0")
        True
        >>> copied("What is the area of a square with the side $x+1$?", "x^2+2x+1", "(x+1)^2")
        False
    """
    if answer == reference:
        return False
    right, copy = _plain(reference), _plain(answer)
    copies = {node for node in (copy, *_tails(copy)) if _is_formula(node)}.difference(right.walk())
    if not copies:
        return False
    formulas = _formulas(statement)
    return right not in formulas and not copies.isdisjoint(formulas)


@lru_cache(maxsize=1024)
def _formulas(statement: str) -> frozenset[Node]:
    statement = escape_money(statement)
    texts = [match.group() for match in _DELIMITED.finditer(statement)]
    texts += _UNDELIMITED.findall(_DELIMITED.sub("\n", statement))
    return frozenset(node for text in texts for node in _parse_formula(text) if _is_formula(node))


def _parse_formula(text: str) -> list[Node]:
    try:
        nodes = [_plain(read_answer(text.strip("$ .,;:?=")))]
    except (Unreadable, OverLimit, RecursionError):
        return []
    for node in nodes:  # which grows
        nodes += node.args if node.kind in _LISTS else ()
    return nodes


def _tails(node: Node) -> Iterator[Node]:
    """``2 + 3 = 5`` and ``5`` in ``x = 2 + 3 = 5``."""
    signs = operators(node)
    for k in range(1, len(node.args)) if set(signs) == {"="} else ():
        last = k == len(signs)
        yield node.args[k] if last else Node("relation", node.args[k:], signs[k:])


def _is_formula(node: Node) -> bool:
    node = node.args[0] if node.kind == "neg" else node
    recurring = isinstance(node.value, Fraction) and 10**40 % node.value.denominator != 0
    return recurring or bool(node.args)


def _plain(node: Node) -> Node:
    node = without_domain(node)
    args = tuple(map(_plain, node.args))
    if node.kind == "quantity" or (node.kind == "pow" and args[1] == num(1)):
        return args[0]
    if node.kind == "add":
        return _plain_sum(args)
    if node.kind in ("mul", "div", "neg"):
        return _plain_product(Node(node.kind, args))
    return Node(node.kind, args, node.value)


def _plain_sum(terms: tuple[Node, ...]) -> Node:
    flat = [part for term in terms for part in (term.args if term.kind == "add" else (term,))]
    rest = [term for term in flat if term not in _ZEROS]
    return rest[0] if len(rest) == 1 else Node("add", tuple(sorted(rest, key=repr)))


def _plain_product(node: Node) -> Node:
    above, below, minus = list[Node](), list[Node](), False
    stack = [(node, True)]
    while stack:
        part, is_above = stack.pop()
        if part.kind == "neg":
            minus = not minus
            stack.append((part.args[0], is_above))
        elif part.kind == "mul":
            stack += [(factor, is_above) for factor in part.args]
        elif part.kind == "div":
            stack += [(part.args[0], is_above), (part.args[1], not is_above)]
        elif part != num(1):
            (above if is_above else below).append(part)
    product = _multiplied(above)
    if below:
        product = Node("div", (product, _multiplied(below)))
    return Node("neg", (product,)) if minus else product


def _multiplied(factors: list[Node]) -> Node:
    if len(factors) == 1:
        return factors[0]
    return Node("mul", tuple(sorted(factors, key=repr))) if factors else num(1)
