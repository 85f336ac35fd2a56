"""The plan of half an hour on a GPU: it runs on a CPU, and no step can lose what others found."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
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
        half_hour.Step("hangs", ("sh", "-c", "echo began; sleep 600"), 10.0, "a test"),
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


def test_a_process_that_a_step_leaves_behind_does_not_hold_up_the_next(half_hour, tmp_path):
    """Ray's processes have sessions of their own, and keep the output open."""
    left = "setsid sleep 300 & echo $!; sleep 1"
    steps = [
        half_hour.Step("ends", ("sh", "-c", left), 120.0, "a test"),
        half_hour.Step("hangs", ("sh", "-c", f"{left}; sleep 600"), 10.0, "a test"),
        python(half_hour, "last", "print('{}')"),
    ]
    out = tmp_path / "gpu.json"
    try:
        assert half_hour.run_all(steps, out, budget=280, say=lambda line: None) == 1
        told = json.loads(out.read_text())
        assert [row["status"] for row in told.values()] == ["done", "out of time", "done"]
    finally:
        for name in ("ends", "hangs"):
            with suppress(ProcessLookupError):
                os.kill(int(json.loads(out.read_text())[name]["output"]), signal.SIGKILL)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_run_that_is_ended_ends_its_step_too(half_hour, tmp_path, at_once):
    """Also if it is ended while it starts the step."""
    out, own = tmp_path / "gpu.json", tmp_path / "pid"
    late = f"""
import os, pathlib, signal
def late(*given, start=g.subprocess.Popen, **options):
    process = start(*given, **options)
    pathlib.Path({str(own)!r}).write_text(str(process.pid))
    os.kill(os.getpid(), signal.SIGTERM)
    return process
g.subprocess.Popen = late
"""
    told = "" if at_once else f"echo $$ > {own}; "  # its own shell might be ended between opening and writing
    code = f"""
import sys
sys.path.insert(0, {str(SOURCE.parent)!r})
import gpu_half_hour as g
{late if at_once else ""}
step = g.Step('long', ('sh', '-c', '{told}exec sleep 600'), 600.0, 'a test')
g.plan = lambda small: [step]
g.main(['--out', {str(out)!r}])
"""
    running = subprocess.Popen([sys.executable, "-c", code])
    try:
        while not at_once and not (own.exists() and own.read_text().strip()):
            assert running.poll() is None
            time.sleep(0.05)
        if not at_once:
            running.terminate()
        assert running.wait(120) == 143
        with pytest.raises(ProcessLookupError):
            os.kill(int(own.read_text()), 0)
    finally:
        running.kill()


def test_a_package_that_pip_does_not_find_in_time_is_noted(half_hour):
    told = half_hour.install(seconds=0.001)["index"]
    assert len(told) == 7
    assert set(told.values()) == {"no answer within 0.001 s"}


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
    assert told["estimate_bytes"] > 16 * told["parameters"]
    assert told["card"] != "CPU" or told["share_of_peak"] is None
    json.dumps(told)


def test_every_step_of_the_plan_can_be_named_and_stands_on_the_page(half_hour):
    page = (SOURCE.parents[1] / "docs" / "gpu.md").read_text(encoding="utf-8")
    for step in half_hour.plan():
        assert f"| `{step.name}` |" in page
        assert f"| {step.seconds:.0f} |" in page
    with pytest.raises(SystemExit):
        half_hour.main(["--only", "nothing"])
