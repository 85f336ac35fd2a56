"""Evaluation during training in this process."""

import pytest

from mars_env.loggers import read_jsonl
from mars_env.trainers.evaluation import evaluation_metrics
from mars_env.trainers.front import train_run
from mars_env.trainers.run_file import load_run

RUN = load_run(
    "arithmetic-solve-verify-correct",
    {
        "steps": 2,
        "problems_per_step": 1,
        "rollouts": {"group": 2, "branches": 1},
        "sampling": {"max_tokens": 4},
        "team": {"model": "tiny"},
        "logging": {"console": False},
    },
)


def rows_of(folder, run, **evaluation):
    train_run(run.with_(out=str(folder), evaluation=evaluation))
    return read_jsonl(folder / "metrics.jsonl")


def test_evaluations_are_logged_when_they_are_due(tmp_path):
    table = {"every": 2, "limit": 3, "samples": 2, "settings": {"rounds": 1}, "temperature": 0.5}
    first, second = rows_of(tmp_path, RUN, **table)
    assert not any(name.startswith("eval_") for name in first)
    assert second["eval_num_samples"] == 6 and 0 <= second["eval_system_accuracy"] <= 1


def test_an_evaluation_changes_nothing_of_the_training(tmp_path):
    """Without staleness: with it, which weights sample a turn depends on who is quicker."""
    without = rows_of(tmp_path / "without", RUN)
    evaluated = rows_of(tmp_path / "with", RUN, every=1, limit=2)
    for before, after in zip(without, evaluated, strict=True):
        trained = {name for name in before if "seconds" not in name}
        assert {name: before[name] for name in trained} == {name: after[name] for name in trained}


def test_an_evaluation_counts_right_answers_by_their_raw_grades(episode):
    scripts = ("S- C+", "S+ C+", "S- C-", "S+ C?")
    metrics = evaluation_metrics([episode(f"p{i}", 0, script) for i, script in enumerate(scripts)])
    assert metrics["eval_solver_accuracy"] == 0.5
    assert metrics["eval_system_accuracy"] == pytest.approx(2 / 3)
    assert metrics["eval_unknown"] == 1
    assert metrics["eval_num_samples"] == 4
    assert metrics["eval_faults"] == 0
