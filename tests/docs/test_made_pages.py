"""What scripts make of the code: the command line's page, the pictures, the table of the demo."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from made_by_make import needed

ROOT = Path(__file__).parents[2]
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


def test_the_loop_on_the_first_page_is_the_packages_own():
    loop = re.search(r"^```py\n.*?:\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[1].rstrip()
    assert loop in (ROOT / "mars_env" / "envs" / "marsrl.py").read_text(encoding="utf-8")
