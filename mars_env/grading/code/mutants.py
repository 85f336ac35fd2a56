"""Makes wrong programs from right ones by small changes to their syntax trees."""

import ast
import random
from collections.abc import Iterator
from typing import Any

from mars_env.seeds import derive_seed

_REPLACED = """
Lt GtE  LtE Lt  Gt LtE  GtE Gt  Eq NotEq  NotEq Eq  In NotIn  NotIn In  Is IsNot  IsNot Is  Add Sub  Sub Add
Mult Add  Div Mult  FloorDiv Mult  Mod FloorDiv  Pow Mult  BitAnd BitOr  BitOr BitAnd  BitXor BitAnd
LShift RShift  RShift LShift  And Or  Or And
"""
"""Operators of Python's syntax tree, each before the one that replaces it."""
_CLASSES = [getattr(ast, name) for name in _REPLACED.split()]
_OPERATORS: dict[type[ast.AST], Any] = dict(zip(_CLASSES[::2], _CLASSES[1::2], strict=True))
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_FUNCTIONS = {"min": "max", "max": "min", "all": "any", "any": "all"}


def mutants(source: str, n: int, seed: int = 0) -> list[str]:
    r"""At most n different programs, each with one change of `source`, or a SyntaxError; most are wrong.

    Example:
        >>> sorted(mutants("def f(x):\n    return x + 1", 10))[0]
        'def f(x):\n    return None'
    """
    tree = ast.parse(source)
    original = ast.unparse(tree)
    changes = [change for node in ast.walk(tree) for change in _changes(node)]
    random.Random(seed).shuffle(changes)
    texts: dict[str, None] = {}
    for owner, field, value in changes:
        if len(texts) == n:
            break
        before = getattr(owner, field)
        setattr(owner, field, value)
        text = ast.unparse(tree)
        setattr(owner, field, before)
        if text != original and _compiles(text):
            texts.setdefault(text)
    return list(texts)


def variants_of(problem_id: str, solution: str, n: int) -> list[str]:
    """At most n mutants of a problem's solution, the same in every call; none if it does not compile."""
    return mutants(solution, n, derive_seed("mutants", problem_id)) if _compiles(solution) else []


def emptied(source: str) -> str:
    r"""The program with the same names that does nothing: only tests that assert nothing let it pass.

    Example:
        >>> print(emptied("def twice(x):\n    return 2 * x\n\nprint(twice(int(input())))"))
        def twice(x):
            pass
    """
    tree = ast.parse(source if _compiles(source) else "")
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTION):
            node.body = [ast.Pass()]
    definitions = (*_FUNCTION, ast.ClassDef, ast.Import, ast.ImportFrom)
    tree.body = [node for node in tree.body if isinstance(node, definitions)]
    return ast.unparse(tree)


def _compiles(text: str) -> bool:
    try:
        compile(text, "<mutant>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):  # an iterator where none is allowed, for example
        return False
    return True


def _changes(node: ast.AST) -> Iterator[tuple[ast.AST, str, Any]]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _OPERATORS:
        yield node, "ops", [_OPERATORS[type(node.ops[0])](), *node.ops[1:]]
    elif isinstance(node, (ast.BinOp, ast.AugAssign, ast.BoolOp)) and type(node.op) in _OPERATORS:
        yield node, "op", _OPERATORS[type(node.op)]()
    elif isinstance(node, ast.Constant):
        for value in _other_constants(node.value):
            yield node, "value", value
    elif isinstance(node, ast.Return) and node.value is not None:
        yield node, "value", ast.Constant(None)
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield node, "test", ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name):
        yield from _changes_of_call(node, node.func)
    elif isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Slice, ast.Tuple)):
        yield node, "slice", ast.BinOp(node.slice, ast.Add(), ast.Constant(1))
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield node, "ifs", []


def _changes_of_call(node: ast.Call, function: ast.Name) -> Iterator[tuple[ast.AST, str, Any]]:
    if function.id == "range":
        last = min(1, len(node.args) - 1)
        less = ast.BinOp(node.args[last], ast.Sub(), ast.Constant(1))
        yield node, "args", [*node.args[:last], less, *node.args[last + 1 :]]
    elif function.id in _FUNCTIONS:
        yield function, "id", _FUNCTIONS[function.id]


def _other_constants(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return [value + 1, 0] if value else [value + 1]
    return [f"{value}x"] if isinstance(value, str) and value else []
