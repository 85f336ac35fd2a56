"""The load test of OpenRLHF's driver, at a tiny size, with the miniature's tokenizer."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from tiny_checkpoint import byte_tokenizer

SOURCE = Path(__file__).parents[2] / "benchmarks" / "openrlhf_driver.py"


@pytest.fixture
def driver(monkeypatch):
    spec = importlib.util.spec_from_file_location("openrlhf_driver", SOURCE)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_it_prints_what_a_completion_costs(driver, tmp_path, capsys):
    pytest.importorskip("torch")
    byte_tokenizer().save_pretrained(tmp_path)
    driver.main(
        [str(tmp_path), "--engines", "2", "--in-flight", "16", "--tokens", "64", "--completions", "24",
         "--seconds", "0.01"]
    )  # fmt: skip
    told = json.loads(capsys.readouterr().out)
    assert told["engines"] == 2
    assert 8 <= told["in_flight_at_most"] <= 16
    assert told["completions"] >= 24
    assert told["rows"] > 0
    assert told["driver_cpu_ms_a_completion"] > 0
    assert told["lag_p50_ms"] <= told["lag_p99_ms"] <= told["lag_max_ms"]
