"""What scripts make of the code: the command line's page, the pictures, the table of the demo."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from made_by_make import needed

import mars_env
from mars_env import Problem

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "script",
    [
        "draw_architecture.py",
        "make_programs.py",
        "write_command_line.py",
        pytest.param("draw_pictures.py", marks=pytest.mark.slow),
    ],
)
def test_what_a_script_has_made_is_what_it_makes(script):
    if script == "draw_pictures.py":
        needed("torch", "hf")
    command = [sys.executable, f"scripts/{script}", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_episode_of_the_picture_is_played_by_the_environment_with_these_rewards():
    recorded = json.loads((PICTURES / "episode.json").read_text(encoding="utf-8"))
    problem = Problem(**recorded["problem"])
    env = mars_env.make("arithmetic-solve-verify-correct", problems=[problem], rounds=3, accept_after=1)
    env.reset(seed=0)
    for turn in recorded["turns"]:
        assert env.agent_selection == turn["agent"]
        env.step(turn["text"])
    assert [turn.reward for turn in env.tree.turns] == [turn["reward"] for turn in recorded["turns"]]
    assert [turn.grade and turn.grade.verdict for turn in env.tree.turns] == [
        turn["grade"] for turn in recorded["turns"]
    ]
    assert env.tree.final == env.tree.turns[2].id


def test_the_loop_on_the_first_page_is_the_packages_own():
    loop = re.search(r"^```py\n.*?:\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[1].rstrip()
    assert loop in (ROOT / "mars_env" / "envs" / "marsrl.py").read_text(encoding="utf-8")
