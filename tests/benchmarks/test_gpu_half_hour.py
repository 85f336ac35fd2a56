"""The plan of half an hour on a GPU: it runs on a CPU, and no step can lose what others found."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import gpu_half_hour as half_hour


@pytest.fixture
def neighbours(monkeypatch):
    """What lies beside the script is imported as when it runs: trainer.py holds the task."""
    monkeypatch.syspath_prepend(Path(half_hour.__file__).parent)


def python(name, code, seconds=60.0):
    return half_hour.Step(name, (sys.executable, "-c", code), seconds, "a test")


def test_a_step_that_fails_or_hangs_loses_nothing_of_the_others(tmp_path):
    out = tmp_path / "gpu.json"
    steps = [
        python("good", "print('words'); print('{\"tokens\": 3}')"),
        python("bad", "print('why'); raise SystemExit(7)"),
        half_hour.Step("hangs", ("sh", "-c", "echo began; sleep 600"), 3.0, "a test"),
        half_hour.Step("absent", ("/no/such/program",), 5.0, "a test"),
        python("last", "print('{\"tokens\": 4}')"),
    ]
    lines = []
    assert half_hour.run_all(steps, out, budget=300, say=lines.append) == 3
    told = json.loads(out.read_text())
    assert {name: row["status"] for name, row in told.items()} == {
        "good": "done", "bad": "failed", "hangs": "out of time", "absent": "failed", "last": "done",
    }  # fmt: skip
    assert told["good"]["result"] == {"tokens": 3}
    assert told["bad"]["exit"] == 7
    assert "why" in told["bad"]["output"]
    assert "began" in told["hangs"]["output"]
    assert told["last"]["result"] == {"tokens": 4}
    assert lines[0] == "good: done"


def test_the_same_command_runs_what_is_not_done_yet(tmp_path):
    out, mark = tmp_path / "gpu.json", tmp_path / "mark"
    once = python("once", f"open({str(mark)!r}, 'x'); print('{{}}')")
    broken = python("again", "raise SystemExit(1)")
    assert half_hour.run_all([once, broken], out, budget=300) == 1
    mended = python("again", "print('{\"now\": 1}')")
    assert half_hour.run_all([once, mended], out, budget=300) == 0  # `once` would fail a second time
    assert json.loads(out.read_text())["again"]["result"] == {"now": 1}


def test_without_time_left_nothing_is_started(tmp_path):
    out = tmp_path / "gpu.json"
    assert half_hour.run_all([python("late", "print('{}')")], out, budget=0) == 1
    assert json.loads(out.read_text()) == {"late": {"status": "no time left"}}


def test_the_trainer_s_step_is_measured_on_a_cpu(neighbours):
    pytest.importorskip("torch")
    told = half_hour.trainer("tiny", steps=1)
    assert told["sampled_tokens_a_second"] > 0
    assert told["trained_tokens_a_second_of_update"] > 0
    assert 0 < told["seconds_an_update"] <= told["seconds_a_step"]
    assert told["estimate_bytes"] > 12 * told["parameters"]
    assert told["card"] != "CPU" or told["share_of_peak"] is None
    json.dumps(told)


@pytest.mark.parametrize("kind", ["full", "adapters", "offload"])
def test_the_update_is_measured_three_ways(neighbours, kind):
    pytest.importorskip("peft")
    told = half_hour.update("tiny", kind, steps=1)
    assert told["plain"]["tokens_a_second"] > 0
    assert told["shared"]["estimate_bytes"] > 0
    json.dumps(told)


def test_only_steps_of_the_plan_can_be_named():
    with pytest.raises(SystemExit):
        half_hour.main(["--only", "nothing"])
