"""The run files of examples/openrlhf, each of which also trains in this process, and the game beside them."""

import importlib
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from mars_env.cli import app
from mars_env.loggers import read_jsonl
from mars_env.testing import check_game
from mars_env.types import Action, Grade, Problem, Turn

EXAMPLES = Path(__file__).parents[2] / "examples" / "openrlhf"
SMALL = [
    *("--backend", "local", "--model", "tiny", "--steps", "1", "--problems_per_step", "1"),
    *("--sampling.max_tokens", "4", "--environment.limit", "2", "--evaluation.limit", "1"),
]
GROUPS = ["--rollouts.group", "2", "--rollouts.branches", "1"]
"""For files of games whose agents play one after the other."""


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.toml")), ids=lambda file: file.stem)
def test_a_file_trains_locally_by_its_own_command(file, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    torch.set_num_threads(1)
    text = file.read_text(encoding="utf-8")
    problems = "programs" if "deepcoder" in text else "arithmetic"
    flags = [*SMALL, "--environment.problems", problems, "--out", str(tmp_path / "run")]
    if "smoke" in file.stem:  # its options are for problems that come with the library
        flags = [*SMALL, "--out", str(tmp_path / "run")]
    flags += [] if "deepcoder" in text else GROUPS
    flags += ["--pipeline.groups_per_update", "1"] if "[pipeline]" in text else []
    flags += ["--team.others.solver", "scripted:42"] if "others" in text else []
    result = CliRunner().invoke(app, ["train", str(file), *flags])
    assert result.exit_code == 0, (result.output, result.exception)
    [row] = read_jsonl(tmp_path / "run" / "metrics.jsonl")
    assert row["step"] == 1
    assert (tmp_path / "run" / "step-00000001" / "state.json").is_file()


PROBLEM = Problem("p", "What is 2 + 2?", "4")


@pytest.fixture
def calibration(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("calibration")


def test_the_game_keeps_the_contract(calibration):
    check_game(calibration.assessed, PROBLEM)


@pytest.mark.parametrize(
    ("grade", "stated", "reward"),
    [
        (Grade.correct(), 0.7, 0.91),
        (Grade.wrong("no"), 0.7, 0.51),
        (Grade.wrong("no"), None, 0.0),
        (Grade.unknown("lost"), 0.7, None),
    ],
)
def test_assessments_are_rewarded_by_briers_score(calibration, grade, stated, reward):
    solution = Turn("t", "0", None, "g", "solver_0", "", "p", Action("4"), grade)
    assessment = Turn("t", "0.0", "0", "g", "assessor_0", "", "p", Action(""), info={"probability": stated})
    assert calibration.brier(assessment, [solution], PROBLEM) == pytest.approx(reward)
