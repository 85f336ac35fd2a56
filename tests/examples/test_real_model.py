"""The example with a real model, here with a tiny random one in its place."""

import pytest
from examples_run import run
from rows import write_rows

from mars_env.rollout import read_run


def test_rows_of_a_file_become_a_report(tmp_path):
    pytest.importorskip("transformers")
    from tiny_checkpoint import tiny_checkpoint

    told = [{"question": f"What is {i} plus {i}?", "answer": f"Add them.\n#### {2 * i}"} for i in range(3)]
    rows = write_rows(tmp_path / "rows.jsonl", told)
    flags = ["--set", "gsm8k", "--engine", "hf", "--model", tiny_checkpoint(tmp_path / "model"), "--limit", 2]
    flags += ["--rounds", 1, "--max-tokens", 4, "--out", tmp_path / "run"]
    printed = run("real_model", tmp_path, rows, *flags)
    assert "gsm8k" in printed
    assert "2 problems x 1 sample," in printed
    trees = read_run(tmp_path / "run").trees
    assert max(len(tree.turns) for tree in trees) <= 4
    turns = [turn for tree in trees for turn in tree.turns]
    assert {turn.problem_id for turn in turns} == {"gsm8k/test/0", "gsm8k/test/1"}
