"""The page that leads from equations to code names what exists."""

import ast
import re
from pathlib import Path

import pytest

from mars_env.lazy import import_object

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers-to-code.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(mars_env\.[\w.]+:[\w.]+)`", PAGE))))
def test_the_code_exists(name):
    pytest.importorskip(
        "torch", reason="losses are torch's"
    ) if ".losses:" in name or ".team:" in name else None
    module, _, path = name.partition(":")
    first, *rest = path.split(".")
    found = import_object(f"{module}:{first}")
    for attribute in rest:
        found = getattr(found, attribute)
    assert found is not None


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", PAGE))))
def test_the_test_exists(name):
    path, _, function = name.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    assert function in {node.name for node in tree.body if isinstance(node, functions)}
