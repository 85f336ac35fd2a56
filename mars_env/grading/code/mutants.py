"""Makes wrong programs from right ones by small changes to their syntax trees."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator

_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


def mutants(source: str, n: int, seed: int = 0) -> list[str]:
    r"""At most n programs, all different, each of which differs from `source` in one place.

    A mutant need not be wrong (some changes do not matter), but most are.

    Args:
        source: A trusted program that compiles; it is parsed in this process.
        n: How many, at most; small programs have fewer.
        seed: Chooses which ones.

    Raises:
        SyntaxError: The source does not compile.

    Example:
        >>> sorted(mutants("def f(x):\n    return x + 1", 10))[0]
        'def f(x):\n    return None'
    """
    tree = ast.parse(source)
    original = ast.unparse(tree)
    places = [
        (index, number)
        for index, node in enumerate(ast.walk(tree))
        for number, _ in enumerate(_changes(copy.deepcopy(node)))
    ]
    random.Random(seed).shuffle(places)
    found: dict[str, None] = {}
    for index, number in places:
        if len(found) == n:
            break
        text = _mutant(tree, index, number)
        if text is not None and text != original:
            found.setdefault(text)
    return list(found)


def _mutant(tree: ast.Module, index: int, number: int) -> str | None:
    changed = copy.deepcopy(tree)
    node = next(node for at, node in enumerate(ast.walk(changed)) if at == index)
    for at, _ in enumerate(_changes(node)):
        if at == number:
            text = ast.unparse(ast.fix_missing_locations(changed))
            try:
                compile(text, "<mutant>", "exec", dont_inherit=True)
            except (SyntaxError, ValueError):  # an iterator where none is allowed, for example
                return None
            return text
    return None


def _changes(node: ast.AST) -> Iterator[None]:
    """Change a node in place, in one way after another; each step undoes the one before."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARE:
        yield from _set(node.ops, 0, _COMPARE[type(node.ops[0])]())
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in _ARITHMETIC:
        yield from _attribute(node, "op", _ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield from _attribute(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.Constant):
        yield from _constant(node)
    elif isinstance(node, ast.Return) and node.value is not None:
        yield from _attribute(node, "value", ast.Constant(None))
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield from _attribute(node, "test", ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name):
        if node.func.id == "range":
            last = min(1, len(node.args) - 1)
            yield from _set(node.args, last, ast.BinOp(node.args[last], ast.Sub(), ast.Constant(1)))
        elif node.func.id in ("min", "max", "all", "any"):
            other = {"min": "max", "max": "min", "all": "any", "any": "all"}[node.func.id]
            yield from _attribute(node.func, "id", other)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.expr):
        if not isinstance(node.slice, (ast.Slice, ast.Tuple)):
            yield from _attribute(node, "slice", ast.BinOp(node.slice, ast.Add(), ast.Constant(1)))
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield from _attribute(node, "ifs", [])


def _constant(node: ast.Constant) -> Iterator[None]:
    value = node.value
    if isinstance(value, bool):
        yield from _attribute(node, "value", not value)
    elif isinstance(value, (int, float)):
        yield from _attribute(node, "value", value + 1)
        if value:
            yield from _attribute(node, "value", 0)
    elif isinstance(value, str) and value:
        yield from _attribute(node, "value", value + "x")


def _attribute(node: ast.AST, name: str, value: object) -> Iterator[None]:
    before = getattr(node, name)
    setattr(node, name, value)
    yield
    setattr(node, name, before)


def _set(items: list[object] | list[ast.cmpop] | list[ast.expr], index: int, value: object) -> Iterator[None]:
    sequence: list[object] = items  # type: ignore[assignment]
    before = sequence[index]
    sequence[index] = value
    yield
    sequence[index] = before
