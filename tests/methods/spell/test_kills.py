"""A run of SPELL that is killed with SIGKILL loses nothing of its memory."""

import json
import os

import pytest
import spell_run
from kills import killed

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the script that kills the run forks it")


@forks
def test_a_killed_run_ends_with_bitwise_the_same_weights_and_memory(tmp_path):
    whole = _, memory = spell_run.train(tmp_path / "whole", 3)
    rows = [json.loads(line) for line in memory.splitlines()]
    assert [row["update"] for row in rows] == list(range(1, spell_run.STEPS + 1))
    assert sum(len(row["new"]) for row in rows) > 3
    result = killed(spell_run, tmp_path / "killed", 3, 4)
    assert result["killed"] == 4 and result["resumed"] >= 1
    assert result["result"] == list(whole)
