"""examples/tools.py with its scripted model."""

import os
import subprocess
import sys
from pathlib import Path

import sandboxes

ROOT = Path(__file__).parents[2]


def test_the_example_solves_its_problems(tmp_path):
    sandboxes.need_a_sandbox()
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/tools.py")],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("100.0%") >= 2, done.stdout
