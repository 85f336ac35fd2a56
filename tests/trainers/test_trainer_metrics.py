import io
import json
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from mars_env.envs.rewards import REWARD_FAULT
from mars_env.errors import MissingExtra, StoreError
from mars_env.trainers.advantages import AdvantageStats
from mars_env.trainers.metrics import (
    ConsoleLogger,
    JsonlLogger,
    Logger,
    RunLogger,
    StepMetrics,
    TensorBoardLogger,
    read_jsonl,
    role_metrics,
)
from mars_env.types import Action, Completion, Group, Turn

METRICS = StepMetrics(
    step=3,
    seconds=1.5,
    advantages=AdvantageStats(groups=2, turns=16, unknown=1, small=0, uniform=1, kept=8),
    roles={"solver": {"reward": 0.25, "turns": 16.0}},
    policies={"mars": {"loss": -0.125, "entropy": 2.0}},
)


def test_flat_names():
    assert METRICS.flat() == {
        "seconds/update": 1.5,
        "advantages/groups": 2.0,
        "advantages/turns": 16.0,
        "advantages/unknown": 1.0,
        "advantages/small": 0.0,
        "advantages/uniform": 1.0,
        "advantages/kept": 8.0,
        "role/solver/reward": 0.25,
        "role/solver/turns": 16.0,
        "policy/mars/loss": -0.125,
        "policy/mars/entropy": 2.0,
    }


def test_role_metrics_by_hand():
    def turn(id, agent, reward, *completions):
        return Turn("t", id, None, "g", agent, "mars", "p", Action("", completions), reward=reward)

    cut = Completion("", "length", token_ids=(1, 2, 3))
    counted = Completion("", completion_tokens=5)
    group = Group("g", (turn("0", "solver_0", 1.0, cut), turn("1", "solver_1", None, counted, counted)))
    lone = Group("h", (turn("2", "verifier_0", None),))
    assert role_metrics([lone, group], frozenset({("t", "0")})) == {
        "solver": {"turns": 2.0, "trained": 1.0, "truncated": 0.5, "tokens": 6.5, "reward": 1.0},
        "verifier": {"turns": 1.0, "trained": 0.0, "truncated": 0.0, "tokens": 0.0},
    }


def test_rewards_that_failed_are_counted_by_role():
    failed = Turn("t", "0", None, "g", "solver_0", "mars", "p", Action(""), info={REWARD_FAULT: "it raised"})
    left = Turn("t", "1", None, "g", "solver_1", "mars", "p", Action(""), reward=1.0)
    judged = Turn("t", "2", None, "g", "verifier_0", "mars", "p", Action(""))  # None for another reason
    roles = role_metrics([Group("g", (failed, left, judged))], frozenset())
    assert roles["solver"]["reward_faults"] == 1.0 and "reward_faults" not in roles["verifier"]
    stream = io.StringIO()
    ConsoleLogger(Console(file=stream, width=200)).log(1, StepMetrics(1, roles=roles).flat())
    assert "solver 1 turns WITHOUT A REWARD because it failed" in stream.getvalue()


def test_console_prints_one_line_a_step():
    stream = io.StringIO()
    logger = ConsoleLogger(Console(file=stream, width=20))
    logger.start(0)
    logger.log(3, {"seconds/waited": 2.0, **METRICS.flat()})
    assert stream.getvalue().count("\n") == 1
    for part in ("step 3", "solver reward 0.250", "mars loss -0.125", "kept 8 of 16 turns", "2.0 + 1.5 s"):
        assert part in stream.getvalue()


def test_jsonl_holds_each_step_once_over_resumes_and_torn_lines(tmp_path):
    path = tmp_path / "logs" / "metrics.jsonl"
    logger = JsonlLogger(path)
    logger.start(0)
    for step in (1, 2, 3):
        logger.log(step, {"loss": step / 2})
    with path.open("a") as file:
        file.write('{"step": 4, "lo')  # a kill in the middle of a row
    assert [row["step"] for row in read_jsonl(path)] == [1, 2, 3]
    again = JsonlLogger(path)
    again.start(2)  # the checkpoint was of step 2
    again.log(3, {"loss": float("inf")})
    again.close()
    assert read_jsonl(path) == [
        {"step": 1, "loss": 0.5},
        {"step": 2, "loss": 1.0},
        {"step": 3, "loss": None},
    ]


def test_a_foreign_file_is_not_overwritten(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"id": 1}\n{"id": 2}\n')
    with pytest.raises(StoreError, match="line 1: not a row of metrics"):
        JsonlLogger(path).start(0)
    assert path.read_text().startswith('{"id": 1}')


def test_tensorboard_writes_and_hides_repeated_steps(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="the extra is not installed"
    )
    for start, steps, value in ((0, (1, 2, 3), 1.0), (2, (3, 4), 5.0)):
        logger = TensorBoardLogger(tmp_path)
        logger.start(start)
        for step in steps:
            logger.log(step, {"policy/mars/loss": value})
        logger.close()
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("policy/mars/loss")] == [
        (1, 1.0),
        (2, 1.0),
        (3, 5.0),
        (4, 5.0),
    ]


def test_run_logger_speaks_to_trackio_and_wandb(monkeypatch):
    calls = []
    run = SimpleNamespace(
        log=lambda values, step: calls.append((step, values)), finish=lambda: calls.append("finished")
    )
    fake = SimpleNamespace(init=lambda **settings: (calls.append(settings), run)[1])
    monkeypatch.setitem(sys.modules, "trackio", fake)
    logger = RunLogger("trackio", project="mars")
    logger.start(0)
    logger.log(1, {"loss": 0.5})
    logger.close()
    logger.close()
    assert calls == [{"project": "mars"}, (1, {"loss": 0.5}), "finished"]


def test_missing_extras_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtra, match=r"mars-env\[wandb\]"):
        RunLogger("wandb")
    with pytest.raises(MissingExtra, match="not 'mlflow'"):
        RunLogger("mlflow")


def test_loggers_keep_the_protocol(tmp_path):
    for logger in (ConsoleLogger(), JsonlLogger(tmp_path / "x"), TensorBoardLogger(tmp_path)):
        assert isinstance(logger, Logger)
    json.dumps(METRICS.flat())
