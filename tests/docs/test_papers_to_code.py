"""The page that leads from equations to code names what exists."""

import ast
import re
from pathlib import Path
from textwrap import indent

import pytest

from mars_env.lazy import import_object

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "papers-to-code.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "`tests/" in line]


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


def test_the_page_of_environments_shows_the_code_of_the_package():
    page = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    source = (ROOT / "mars_env" / "envs" / "marsrl.py").read_text(encoding="utf-8")
    assert indent(shown, "    ") in source
