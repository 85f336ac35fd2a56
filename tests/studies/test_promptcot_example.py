"""The example that goes from a cold start to self-play."""

import runpy
from pathlib import Path

import torch

PATH = Path(__file__).parents[2] / "examples" / "promptcot.py"


def test_the_example_trains_the_models_makes_problems_and_trains_on_them(capsys):
    torch.set_num_threads(1)
    runpy.run_path(str(PATH), run_name="__main__")
    said = capsys.readouterr().out
    assert said.count("best R") == 3 and "references UNKNOWN" in said and said.count("DPO step") == 3
