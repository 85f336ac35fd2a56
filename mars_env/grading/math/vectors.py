r"""Reads products of vectors and of matrices, which do not commute, and derivatives as names."""

from mars_env.grading.math.nodes import Node, num, operators, substitute

BOLD = "bold "  # before the name of a letter in bold
_VECTORS = (BOLD, "vec ", "overrightarrow ", "hat ")
_OF_MATRICES = (Node("neg", (num(1),)), Node("sym", value="T"))
_DIFFERENTIALS = (Node("sym", value="d"), Node("sym", value="partial"))


def times(left: Node, operator: str, right: Node) -> Node:
    """A product; of two vectors or matrices, its name is ``cross``, ``dot`` or ``matmul``."""
    matrices = _is_matrix(right) and _is_matrix(left)
    inverted = matrices and any(map(_is_of_matrices, (*right.walk(), *left.walk())))  # as in A^{-1} B
    if not inverted and not (_is_vector(right) and _is_vector(left)):
        return Node("mul", (left, right))
    name = {r"\times": "cross", r"\cdot": "matmul" if matrices else "dot"}.get(operator, "matmul")
    swapped = name != "matmul" and repr(left) > repr(right)
    vector = Node("call", (right, left) if swapped else (left, right), name)
    return Node("neg", (vector,)) if swapped and name == "cross" else vector


def _is_vector(node: Node) -> bool:
    if node.kind == "sym":
        return node.name.startswith(_VECTORS)
    if node.kind == "call":
        return node.value in ("cross", "matmul")
    if node.kind in ("div", "pow"):
        return _is_vector(node.args[0])
    return node.kind in ("neg", "add", "mul") and any(map(_is_vector, node.args))


def _is_of_matrices(node: Node) -> bool:
    return node.value == "matmul" or (node.kind == "pow" and node.args[1] in _OF_MATRICES)


def _is_matrix(node: Node) -> bool:
    names = [part.name.removeprefix(BOLD) for part in node.walk() if part.kind == "sym"]
    return bool(names) and all(name[0].isupper() for name in names)


def as_tuple(node: Node) -> Node:
    r"""``-10 \mathbf{i} + 7 \mathbf{j}`` as ``(-10, 7)``; any other node unchanged.

    Example:
        >>> from mars_env.grading.math.parser import read_answer
        >>> as_tuple(read_answer(r"2\mathbf{i}-7\mathbf{j}")) == read_answer("(2, -7)")
        True
    """
    if operators(node) == ("=",) and node.args[0].kind in ("sym", "call"):
        return Node("relation", (node.args[0], as_tuple(node.args[1])), node.value)
    if node.kind == "pow" and node.args[1] == _OF_MATRICES[1] and node.args[0].kind == "group":
        return node.args[0]  # [1, 2]^T
    letters = {part for part in node.walk() if part.kind == "sym" or part.value in ("e", "i")}
    axes = {letter.name.rpartition(" ")[2]: letter for letter in letters}
    fonts = letters and all(letter.name.startswith(_VECTORS) for letter in letters)
    if not {*axes} <= {"i", "j", "k"} or not (fonts or "j" in axes):
        return node
    components = dict.fromkeys("ijk" if "k" in axes else "ij", num(0))
    for term in _terms(node):
        for axis, letter in axes.items():
            factor = _coefficient(term, letter)
            if factor is not None and components[axis] == num(0):  # "2i + 3i" is not added up
                components[axis] = factor
                break
        else:
            return node
    return Node("group", tuple(components.values()), ("(", ")"))


def _terms(node: Node) -> list[Node]:
    return [term for part in node.args for term in _terms(part)] if node.kind == "add" else [node]


def _coefficient(term: Node, letter: Node) -> Node | None:
    """The other factor of a product with a letter; None if the letter is no factor of it."""
    if term == letter:
        return num(1)
    if term.kind not in ("mul", "div", "neg"):
        return None
    for k, part in enumerate(term.args[:1] if term.kind == "div" else term.args):
        if (inner := _coefficient(part, letter)) is not None:
            if term.kind == "mul":
                other = term.args[1 - k]
                return other if inner == num(1) else Node("mul", (inner, other))
            return Node(term.kind, (inner, *term.args[1:]))
    return None


def in_plain(node: Node) -> Node:
    """The node without bold letters, which are for the reading of products."""
    for letter in {part for part in node.walk() if part.kind == "sym" and BOLD in part.name}:
        bare = letter.name.replace(BOLD, "")
        node = substitute(node, letter, Node("const" if bare in ("e", "i") else "sym", value=bare))
    return node


def derivative(top: Node, below: Node) -> Node | None:
    r"""The derivative ``\frac{dy}{dx}`` as a name; None for any other fraction."""
    first = _first(top)
    derivative = first in _DIFFERENTIALS and first == _first(below)
    return Node("sym", value=f"derivative {top!r} {below!r}") if derivative else None


def _first(node: Node) -> Node:
    while node.kind in ("mul", "pow"):
        node = node.args[0]
    return node
