"""Names that are imported on first use: each is what the type checker reads, and leads to what it says."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from mars_env import cli
from mars_env.envs import registry as rules_registry
from mars_env.problems import registry as problem_registry

PACKAGES = ["mars_env", "mars_env.agents", "mars_env.envs", "mars_env.problems", "mars_env.trainers"]
MOST_NAMES = 22
"""A face that a newcomer reads at a glance; the rest is imported from its own module."""


@pytest.mark.parametrize("package", PACKAGES)
def test_the_type_checker_reads_the_same_names(package):
    module = importlib.import_module(package)
    body = ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body
    typed = {
        alias.name: node.module
        for block in (body, *(node.body for node in body if isinstance(node, ast.If)))
        for node in block
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    assert sorted(typed) == module.__all__
    assert len(module.__all__) <= MOST_NAMES
    for name, place in typed.items():
        assert getattr(module, name) is getattr(importlib.import_module(place), name)


def test_an_unknown_name_is_told_with_those_there_are():
    with pytest.raises(AttributeError, match="mars_env has no attribute 'mkae'"):
        importlib.import_module("mars_env").mkae  # noqa: B018


def test_every_embedded_set_is_registered_under_its_name():
    modules = set(problem_registry._EMBEDDED.values())
    offered = {name: module for module in modules for name in importlib.import_module(module).LOADERS}
    assert offered == problem_registry._EMBEDDED


def test_every_built_in_rule_is_registered_under_its_name():
    modules = set(rules_registry._BUILT_IN.values())
    offered = {name: module for module in modules for name in importlib.import_module(module).RULES}
    assert offered == rules_registry._BUILT_IN


@pytest.mark.parametrize("name", cli._COMMANDS)
def test_a_command_says_in_the_list_what_it_says_itself(name):
    first = inspect.cleandoc(cli._command(name).help).split("\n\n")[0]
    assert " ".join(first.split()) == cli._COMMANDS[name][1]


def test_the_package_and_the_list_of_commands_import_what_they_need_and_no_more():
    """Speed is measured by benchmarks/import_time.py; this holds what makes it."""
    code = (
        "import sys; from typer.testing import CliRunner; from mars_env.cli import app; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
        "print(sorted({name for name in sys.modules if name.startswith('mars_env.') or name in "
        "('pydantic', 'aiohttp', 'jinja2', 'scipy', 'torch')}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    imported = set(ast.literal_eval(done.stdout))
    assert imported <= {
        "mars_env.checks", "mars_env.cli", "mars_env.envs", "mars_env.envs.registry", "mars_env.envs.rewards",
        "mars_env.envs.specs", "mars_env.errors", "mars_env.lazy", "mars_env.problems",
        "mars_env.problems.problem_set", "mars_env.problems.registry", "mars_env.text", "mars_env.types",
    }, done.stderr  # fmt: skip
