"""What scripts make of the code: the command line's page, the pictures, the table of the demo."""

import subprocess
import sys
from pathlib import Path

import pytest
from made_by_make import needed

ROOT = Path(__file__).parents[2]


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
