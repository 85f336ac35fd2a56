"""What scripts make of the code: the command line's page, the pictures, the table of the demo."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from made_by_make import needed

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("script", ["make_programs.py", "write_command_line.py"])
def test_what_a_script_has_made_is_what_it_makes(script):
    """`make check` runs draw_architecture.py."""
    command = [sys.executable, f"scripts/{script}", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_pictures_are_those_that_a_script_draws(monkeypatch):
    """In this process, which has imported torch."""
    needed("torch", "hf")
    script = str(ROOT / "scripts" / "draw_pictures.py")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [script, "--check"])
    runpy.run_path(script, run_name="__main__")


def test_the_loop_on_the_first_page_is_the_packages_own():
    loop = re.search(r"^```py\n.*?:\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[1].rstrip()
    assert loop in (ROOT / "mars_env" / "envs" / "marsrl.py").read_text(encoding="utf-8")
