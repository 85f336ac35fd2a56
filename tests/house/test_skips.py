"""A test is skipped for what is missing, which it asks for, and never because something raised an error."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
MISSING = {"ImportError", "ModuleNotFoundError", "MissingExtra"}


def skips_on_errors(source):
    """The lines of handlers that skip, except those for a package that is not installed."""
    for handler in ast.walk(ast.parse(source)):
        if not isinstance(handler, ast.ExceptHandler):
            continue
        caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if {ast.unparse(error) if error else "everything" for error in caught} <= MISSING:
            continue
        calls = [
            ast.unparse(c.func) for step in handler.body for c in ast.walk(step) if isinstance(c, ast.Call)
        ]
        if any(name.rpartition(".")[2].startswith(("skip", "importorskip")) for name in calls):
            yield handler.lineno


def test_no_test_is_skipped_because_of_an_error():
    files = sorted(TESTS.rglob("*.py"))
    assert len(files) > 100
    found = {str(f.relative_to(TESTS)): list(skips_on_errors(f.read_text(encoding="utf-8"))) for f in files}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_such_a_skip_is_seen():
    habit = "try:\n    run()\nexcept {}:\n    if x:\n        pytest.skip('no')\n"
    assert list(skips_on_errors(habit.format("SandboxError as error"))) == [3]
    assert list(skips_on_errors(habit.format("(ImportError, OSError)"))) == [3]
    assert list(skips_on_errors(habit.format("ImportError"))) == []
    assert list(skips_on_errors("try:\n    run()\nexcept:\n    skip_or_fail('x', 'y')\n")) == [3]
