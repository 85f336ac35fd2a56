"""The example that puts RuscaRL's scaffold, a rubric and MarsRL's team together."""

import runpy
from pathlib import Path

import torch

PATH = Path(__file__).parents[2] / "examples" / "ruscarl_team.py"


def test_the_team_is_trained_with_a_scaffold_and_a_rubric(capsys):
    torch.set_num_threads(1)
    runpy.run_path(str(PATH), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line[0] for line in lines] == ["1", "2"] and all("'verifier'" in line for line in lines)


def test_the_example_is_short():
    assert len(PATH.read_text().splitlines()) <= 60
