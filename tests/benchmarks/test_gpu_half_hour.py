"""The plan of half an hour on a GPU: it runs on a CPU, and no step can lose what others found."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "benchmarks" / "gpu_half_hour.py"


@pytest.fixture(scope="module")
def half_hour():
    spec = importlib.util.spec_from_file_location("gpu_half_hour", SOURCE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def python(half_hour, name, code, seconds=60.0):
    return half_hour.Step(name, (sys.executable, "-c", code), seconds, "a test")


def test_a_step_that_fails_or_hangs_loses_nothing_of_the_others(half_hour, tmp_path):
    out = tmp_path / "gpu.json"
    steps = [
        python(half_hour, "good", "print('words'); print('{\"tokens\": 3}')"),
        python(half_hour, "bad", "print('why'); raise SystemExit(7)"),
        half_hour.Step("hangs", ("sh", "-c", "echo began; sleep 600"), 3.0, "a test"),
        half_hour.Step("absent", ("/no/such/program",), 5.0, "a test"),
        python(half_hour, "last", "print('{\"tokens\": 4}')"),
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


def test_the_same_command_runs_what_is_not_done_yet(half_hour, tmp_path):
    out, mark = tmp_path / "gpu.json", tmp_path / "mark"
    once = python(half_hour, "once", f"open({str(mark)!r}, 'x'); print('{{}}')")
    broken = python(half_hour, "again", "raise SystemExit(1)")
    assert half_hour.run_all([once, broken], out, budget=300) == 1
    mended = python(half_hour, "again", "print('{\"now\": 1}')")
    assert half_hour.run_all([once, mended], out, budget=300) == 0  # `once` would fail a second time
    assert json.loads(out.read_text())["again"]["result"] == {"now": 1}


def test_without_time_left_nothing_is_started(half_hour, tmp_path):
    out = tmp_path / "gpu.json"
    assert half_hour.run_all([python(half_hour, "late", "print('{}')")], out, budget=0) == 1
    assert json.loads(out.read_text()) == {"late": {"status": "no time left"}}


def test_the_trainer_s_step_is_measured_on_a_cpu(half_hour, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(SOURCE.parent))  # its neighbour trainer.py holds the task
    told = half_hour.trainer("tiny", steps=1)
    assert told["sampled_tokens_a_second"] > 0
    assert told["trained_tokens_a_second_of_update"] > 0
    assert 0 < told["seconds_an_update"] <= told["seconds_a_step"]
    assert told["estimate_bytes"] > 12 * told["parameters"]
    assert told["card"] != "CPU" or told["share_of_peak"] is None
    json.dumps(told)


@pytest.mark.parametrize("kind", ["full", "adapters", "offload"])
def test_the_update_is_measured_three_ways(half_hour, monkeypatch, kind):
    pytest.importorskip("peft")
    monkeypatch.syspath_prepend(str(SOURCE.parent))
    told = half_hour.update("tiny", kind, steps=1)
    assert told["plain"]["tokens_a_second"] > 0
    assert told["shared"]["estimate_bytes"] > 0
    json.dumps(told)


def test_only_steps_of_the_plan_can_be_named(half_hour):
    with pytest.raises(SystemExit):
        half_hour.main(["--only", "nothing"])
