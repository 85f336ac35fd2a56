r"""Reads products of vectors and of matrices, which do not commute, and derivatives as names."""

from __future__ import annotations

from mars_env.grading.math.nodes import Node, Unreadable, number, substitute

BOLD = "bold "
"""Before the name of a letter in bold."""
_VECTORS = (BOLD, "vec ", "overrightarrow ", "hat ")
_OF_MATRICES = (Node("neg", (number(1),)), Node("sym", value="T"))
_DIFFERENTIALS = (Node("sym", value="d"), Node("sym", value="partial"))


def times(left: Node, operator: str, right: Node) -> Node:
    r"""A product; of two vectors or matrices, its name is ``cross``, ``dot`` or ``matmul``.

    Example:
        >>> from mars_env.grading.math.parser import read
        >>> read(r"\vec a\cdot\vec b").value, read(r"\vec a\times\vec b").value, read(r"2\vec a").kind
        ('dot', 'cross', 'mul')
    """
    if not (_is_vector(right) and _is_vector(left)) and not _are_matrices(left, right):
        return Node("mul", (left, right))
    (scale, left), (scale2, right) = _split(left), _split(right)
    name = {r"\times": "cross", r"\cdot": "dot"}.get(operator, "matmul")
    if name == "dot" and _is_matrix(left) and _is_matrix(right):
        name = "matmul"
    swapped = name != "matmul" and repr(left) > repr(right)
    vector = Node("call", (right, left) if swapped else (left, right), name)
    if swapped and name == "cross":
        scale = Node("neg", (scale,))
    return vector if scale == scale2 == number(1) else Node("mul", (Node("mul", (scale, scale2)), vector))


def _is_vector(node: Node) -> bool:
    if node.kind == "sym":
        return node.name.startswith(_VECTORS)
    if node.kind == "call":
        return node.value in ("cross", "matmul")
    if node.kind in ("div", "pow"):
        return _is_vector(node.args[0])
    return node.kind in ("neg", "add", "mul") and any(map(_is_vector, node.args))


def _are_matrices(left: Node, right: Node) -> bool:
    """``A^{-1} B``: names in capitals, and an inverse or a transpose among them."""
    return _is_matrix(right) and _is_matrix(left) and any(map(_is_of_matrices, (*right.walk(), *left.walk())))


def _is_of_matrices(node: Node) -> bool:
    return node.value == "matmul" or (node.kind == "pow" and node.args[1] in _OF_MATRICES)


def _is_matrix(node: Node) -> bool:
    names = [part.name.removeprefix(BOLD) for part in node.walk() if part.kind == "sym"]
    return bool(names) and all(name[0].isupper() for name in names)


def _split(node: Node) -> tuple[Node, Node]:
    """The scalar and the vector that a vector is the product of."""
    if node.kind == "neg":
        scale, vector = _split(node.args[0])
        return Node("neg", (scale,)), vector
    if node.kind in ("mul", "div"):
        first, second = node.args
        if _is_matrix(first) and _is_matrix(second):
            return number(1), node
        if _is_vector(first):
            scale, vector = _split(first)
            return Node(node.kind, (scale, second)), vector
        scale, vector = _split(second)
        return Node("mul", (first, scale)), vector
    return number(1), node


def same_fonts(a: Node, b: Node) -> tuple[Node, Node]:
    """Both nodes, without bold letters if only one of them has such."""
    bold = [{part for part in node.walk() if part.kind == "sym" and BOLD in part.name} for node in (a, b)]
    if not all(bold):
        a, b = (_without_bold(node, found) for node, found in zip((a, b), bold, strict=True))
    return a, b


def _without_bold(node: Node, found: set[Node]) -> Node:
    for name in found:
        bare = name.name.replace(BOLD, "")
        node = substitute(node, name, Node("const" if bare in ("e", "i") else "sym", value=bare))
    return node


def derivative(top: Node, below: Node) -> Node | None:
    r"""The derivative ``\frac{dy}{dx}`` as a name; None for any other fraction.

    Raises:
        Unreadable: It is an operator without its function, ``\frac{d}{dx}``.
    """
    first, second = _first(top), _first(below)
    if first != second or first not in _DIFFERENTIALS or below == second:
        return None
    if top.kind != "mul":
        raise Unreadable("a derivative of nothing")
    return Node("sym", value=f"derivative {top!r} {below!r}")


def _first(node: Node) -> Node:
    """The first factor of a product, without its power."""
    while node.kind in ("mul", "pow"):
        node = node.args[0]
    return node
