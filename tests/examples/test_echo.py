"""The example with a learner and a sampler in two processes."""

import os
import re
import subprocess
import sys
from pathlib import Path

PATH = Path(__file__).parents[2] / "examples" / "echo.py"


def test_learner_and_sampler_train_and_end(tmp_path):
    done = subprocess.run(
        [sys.executable, PATH],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "ECHO_KEY": "a key"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [rewards] = re.findall(r"^rewards: (.*)$", done.stdout, re.MULTILINE)
    assert len(rewards.split()) == 12
    assert "the learner busy: an update takes" in done.stdout
    [answers] = re.findall(r"^(\d+) answers$", done.stdout, re.MULTILINE)
    assert int(answers) >= 12 * 4
