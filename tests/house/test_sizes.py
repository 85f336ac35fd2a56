"""Functions and files are small, or say why they are not."""

import ast
from pathlib import Path

import mars_env

PACKAGE = Path(mars_env.__file__).parent
MOST_PARAMETERS, MOST_LINES = 7, 500
SOURCES = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}


def parameters(function):
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return [each.arg for each in every if each.arg not in ("self", "cls")]


def test_a_function_with_many_parameters_says_why():
    """On the line of its ``def``; what is public may have as many keywords as it has settings."""
    silent = [
        f"{name}:{node.lineno} {node.name}"
        for name, source in SOURCES.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and len(parameters(node)) > MOST_PARAMETERS
        and "  # " not in source.splitlines()[node.lineno - 1]
    ]
    assert not silent, silent


def test_a_long_file_says_why():
    """Whether its docstring gives a reason, for example that it is a table of data."""
    long = {name: source for name, source in SOURCES.items() if len(source.splitlines()) > MOST_LINES}
    silent = [
        name
        for name, source in long.items()
        if "long because" not in (ast.get_docstring(ast.parse(source)) or "")
    ]
    assert not silent, silent
