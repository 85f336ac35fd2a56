"""examples/tools.py, with its scripted model and with a checkpoint."""

import pytest
import sandboxes
from examples_run import run
from tiny_checkpoint import tiny_checkpoint


@pytest.fixture(autouse=True)
def sandbox():
    sandboxes.need_a_sandbox()


def test_the_scripted_team_solves_its_problems(tmp_path):
    assert run("tools", tmp_path).count("100.0%") >= 2


def test_a_checkpoint_is_trained_for_three_steps_and_evaluated(tmp_path):
    checkpoint = tiny_checkpoint(tmp_path / "tiny")
    first, second, third, report = run("tools", tmp_path, checkpoint).split("\n", 3)
    assert [line.split()[0] for line in (first, second, third)] == ["1", "2", "3"]
    assert "2 problems x 1 sample" in report
