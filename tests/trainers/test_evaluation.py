"""Evaluation during training in this process."""

import pytest
import turns

from mars_env.loggers import read_jsonl
from mars_env.trainers.evaluation import evaluation_metrics
from mars_env.trainers.front import train_run
from mars_env.trainers.run_file import load_run
from mars_env.types import Grade, Problem, Tree

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


def test_an_evaluation_counts_right_answers_by_their_raw_grades():
    def tree(number, first, last, fault=""):
        problem = Problem(f"p{number}", "2 + 2?", "4")
        chain = (
            turns.turn("0", None, turns.SAMPLED, agent="solver_0", grade=first),
            turns.turn("0.0", None, turns.SAMPLED, agent="corrector_0", grade=last),
        )
        return Tree(f"p{number}#0", problem, chain, final="0.0", fault=fault)

    right, wrong, unknown = Grade.correct(), Grade.wrong("5"), Grade.unknown("the grader was lost")
    metrics = evaluation_metrics(
        [tree(0, wrong, right), tree(1, right, right), tree(2, wrong, wrong), tree(3, right, unknown)]
    )
    assert metrics["eval_solver_accuracy"] == 0.5
    assert metrics["eval_system_accuracy"] == pytest.approx(2 / 3)
    assert metrics["eval_unknown"] == 1
    assert metrics["eval_num_samples"] == 4
    assert metrics["eval_faults"] == 0
