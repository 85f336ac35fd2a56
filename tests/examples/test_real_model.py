"""The example with a real model, here with a tiny random one in its place; and the script that makes it."""

import runpy
import sys
from pathlib import Path

import pytest
from rows import write_rows

from mars_env.rollout import read_run

ROOT = Path(__file__).parents[2]
EXAMPLE, SCRIPT = ROOT / "examples" / "real_model.py", ROOT / "scripts" / "make_smollm2.py"


def run(monkeypatch, path, *words):
    monkeypatch.setattr(sys, "argv", [str(path), *map(str, words)])
    return runpy.run_path(str(path), run_name="__main__")


def test_rows_of_a_file_become_a_report(tmp_path, monkeypatch, capsys):
    pytest.importorskip("transformers")
    from tiny_checkpoint import tiny_checkpoint

    told = [{"question": f"What is {i} plus {i}?", "answer": f"Add them.\n#### {2 * i}"} for i in range(3)]
    rows = write_rows(tmp_path / "rows.jsonl", told)
    flags = ["--set", "gsm8k", "--engine", "hf", "--model", tiny_checkpoint(tmp_path / "model"), "--limit", 2]
    flags += ["--rounds", 1]
    run(monkeypatch, EXAMPLE, rows, *flags, "--max-tokens", 4, "--out", tmp_path / "run")
    printed = capsys.readouterr().out
    assert "gsm8k" in printed
    assert "2 problems x 1 sample," in printed
    trees = read_run(tmp_path / "run").trees
    assert max(len(tree.turns) for tree in trees) <= 4
    turns = [turn for tree in trees for turn in tree.turns]
    assert {turn.problem_id for turn in turns} == {"gsm8k/test/0", "gsm8k/test/1"}
