"""The example that goes from a cold start to self-play."""

import runpy

import torch


def test_the_example_trains_the_models_makes_problems_and_trains_on_them(capsys):
    torch.set_num_threads(1)
    runpy.run_module("studies.promptcot.example", run_name="__main__")
    said = capsys.readouterr().out
    assert said.count("nats a token") == 7 and "references UNKNOWN" in said and said.count("DPO step") == 3
