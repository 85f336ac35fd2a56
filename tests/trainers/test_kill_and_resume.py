import json
import os
import subprocess
import sys

import pytest

from mars_env.trainers.metrics import read_jsonl


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the script that kills the run forks it")
@pytest.mark.parametrize("every", [1, 3])
def test_killed_at_five_random_moments_a_run_ends_bitwise_the_same(toy, tmp_path, every):
    never_killed = toy.train(None, every)
    done = subprocess.run(
        [sys.executable, toy.__file__, str(tmp_path), str(every), "5"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["digest"] == never_killed
    assert result["killed"] == 5
    assert result["resumed"] >= 1  # not all kills came before the first checkpoint
    assert [row["step"] for row in read_jsonl(tmp_path / "metrics.jsonl")] == list(range(1, toy.STEPS + 1))
