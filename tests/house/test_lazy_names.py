"""Names that are imported on first use: each is what the type checker reads, and leads to what it says."""

import ast
import inspect

import pytest
from command_line import run_python

from mars_env import cli


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
