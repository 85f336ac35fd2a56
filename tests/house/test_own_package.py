"""Somebody else's package, installed next to the library: its parts work by name everywhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import run_python

PACKAGE = Path(__file__).parent / "own_package"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs Python in a process that sees the package as installed."""
    home = tmp_path_factory.mktemp("own")
    build = home / "source"
    subprocess.run(["cp", "-r", PACKAGE, build], check=True)  # building leaves files behind
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--target", home / "site", build], check=True, capture_output=True)

    def run(code, *arguments):
        path = os.pathsep.join([str(home / "site"), os.environ.get("PYTHONPATH", "")])
        done = run_python(code, *arguments, cwd=home, env={**os.environ, "PYTHONPATH": path})
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_own_parts_work_in_make_by_entry_point_and_by_module(run):
    printed = run(
        """
import mars_env, pettingzoo
from mars_env.testing import check_env, check_game
for name in ("riddles-guess-check", "my_riddles:riddles-guess-check", "my_riddles:my-riddles-whole"):
    env = mars_env.make(name, chances=3, rewards={"guesser": "my_riddles:brevity"})
    env.reset(seed=0)
    env.step("7")
    print(env.agent_selection, env.rewards["guesser_0"])
check_env(lambda **kwargs: mars_env.make("riddles-guess-check", **kwargs), cycles=5)
check_game(env.game.rules, env.problems[0])
known = set(mars_env.list_envs())
assert {"riddles-guess-check", "aime-guess-check", "riddles-solve", "my-riddles-whole"} <= known
pettingzoo.make("aec", "mars_env/my-riddles-whole-v0").reset()
"""
    )
    assert printed.split("\n")[:3] == ["checker_0 0.5"] * 3


def test_own_parts_work_on_the_command_line(run):
    options = ["--agents", "parrots", "--n", "2", "--json", "--reward", "guesser=my_riddles:brevity"]
    program = "from mars_env.cli import main; main()"
    report = json.loads(run(program, "evaluate", "my_riddles:my-riddles-whole", *options))
    assert report["counts"]["episodes"] == 40
    assert report["metrics"]["system_accuracy"]["estimate"]["value"] == pytest.approx(0.1)
