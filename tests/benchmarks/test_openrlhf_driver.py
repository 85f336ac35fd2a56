"""The load test of OpenRLHF's driver, at a tiny size, with the miniature's tokenizer."""

from __future__ import annotations

import json

import pytest
from tiny_checkpoint import byte_tokenizer

pytest.importorskip("torch")

from benchmarks import openrlhf_driver


def test_it_prints_what_a_completion_costs(tmp_path, capsys):
    byte_tokenizer().save_pretrained(tmp_path)
    openrlhf_driver.main(
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
