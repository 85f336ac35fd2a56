"""Loggers: each figure of each step is kept once, over resumes and killed processes."""

import sys
import time
from types import SimpleNamespace

import pytest

from mars_env.errors import StoreError
from mars_env.loggers import JsonlLogger, RunLogger, TensorBoardLogger, read_jsonl


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
    assert read_jsonl(path) == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 1.0}, {"step": 3, "loss": None}]


def test_a_foreign_file_is_not_overwritten(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"id": 1}\n{"id": 2}\n')
    with pytest.raises(StoreError):
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
        time.sleep(1)  # TensorBoard reads files in the order of the seconds in which they were opened
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    shown = [(event.step, event.value) for event in events.Scalars("policy/mars/loss")]
    assert shown == [(1, 1.0), (2, 1.0), (3, 5.0), (4, 5.0)]


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
