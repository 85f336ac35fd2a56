"""Names that are imported on first use: each is what the type checker reads, and leads to what it says."""

import ast
import importlib
import inspect
import sys
from importlib.machinery import SourceFileLoader

import pytest
from command_line import run_python

from mars_env import cli
from mars_env.errors import ConfigError
from mars_env.lazy import after_import, import_object


def test_an_unknown_name_is_told_with_those_there_are():
    with pytest.raises(AttributeError):
        importlib.import_module("mars_env").mkae  # noqa: B018


@pytest.mark.parametrize("name", cli._COMMANDS)
def test_a_command_says_in_the_list_what_it_says_itself(name):
    first = inspect.cleandoc(cli._command(name).help).split("\n\n")[0]
    assert " ".join(first.split()) == cli._COMMANDS[name][1]


def fresh(code):
    """What a new interpreter prints."""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_and_the_list_of_commands_import_what_they_need_and_no_more():
    """Speed is measured by benchmarks/import_time.py; this holds what makes it."""
    printed = fresh(
        "import sys; from typer.testing import CliRunner; from mars_env.cli import app; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
        "print(sorted({name for name in sys.modules if name.startswith('mars_env.') or name in "
        "('pettingzoo', 'numpy', 'pydantic', 'aiohttp', 'jinja2', 'scipy', 'torch')}))"
    )
    assert ast.literal_eval(printed) == ["mars_env.cli", "mars_env.errors", "mars_env.lazy", "mars_env.text"]


REGISTERED = """
from mars_env.envs import solve
mars_env.register("own-sums", problems="arithmetic", game=solve)
import pettingzoo
missing = {f"mars_env/{env_id}-v0" for env_id in mars_env.list_envs()} - set(pettingzoo.aec_registry)
assert "own-sums" in mars_env.list_envs() and not missing, missing
pettingzoo.make("aec", "mars_env/own-sums-v0").reset(seed=0)
"""


@pytest.mark.parametrize(
    "order",
    [
        "import pettingzoo, mars_env",
        "import mars_env; from pettingzoo.env_registry.registration import aec_registry",
        "import mars_env, importlib.util; assert importlib.util.find_spec('pettingzoo')",
        "import mars_env, pettingzoo, importlib; [importlib.reload(m) for m in (mars_env, pettingzoo)]",
    ],
)
def test_pettingzoo_knows_the_environments_in_whatever_order_the_two_are_imported(order):
    fresh(f"{order}{REGISTERED}")


def test_a_module_that_was_waited_for_is_as_its_own_loader_left_it(tmp_path, monkeypatch):
    (tmp_path / "waited_for.py").write_text("value = 1\n")
    (tmp_path / "not_importable.py").write_text("raise ValueError('as it is')\n")
    monkeypatch.syspath_prepend(tmp_path)
    finders, seen = list(sys.meta_path), []
    for name in "first", "second":
        after_import("waited_for", lambda name=name: seen.append((name, sys.modules["waited_for"].value)))
    module = importlib.import_module("waited_for")
    assert seen == [("first", 1), ("second", 1)] and sys.meta_path == finders
    assert isinstance(module.__loader__, SourceFileLoader) and module.__spec__.loader is module.__loader__
    after_import("not_importable", lambda: seen.append("never"))
    after_import("not_there_at_all", lambda: seen.append("never"))
    for name, error in ("not_importable", ValueError), ("not_there_at_all", ModuleNotFoundError):
        with pytest.raises(error):
            importlib.import_module(name)
    assert len(seen) == 2
    monkeypatch.setattr(sys, "meta_path", finders)


def test_modules_of_the_package_are_found_without_an_import_of_their_own():
    fresh(
        "import mars_env; assert mars_env.types.Problem and mars_env.agents.Solver and mars_env.envs.solve; "
        "assert not hasattr(mars_env, 'typos') and not hasattr(mars_env.cli, '__wrapped__')"
    )


@pytest.mark.parametrize("name", [".mine:f", "exact", "no_such_module:part", "mars_env.types:Nothing"])
def test_a_name_that_names_nothing_is_told_with_the_half_that_is_wrong(name):
    with pytest.raises(ConfigError):
        import_object(name)
