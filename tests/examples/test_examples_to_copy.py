"""The examples to copy are short, run as they stand, and print what they promise."""

import re

import openai_server
import sandboxes
from examples_run import run
from made_by_make import needed
from rows import write_rows

from mars_env.rollout import read_run


def test_a_reward_of_your_own_is_in_the_report(tmp_path):
    assert run("own_reward", tmp_path).split()[::2] == ["solver", "verifier", "corrector"]


def test_an_api_model_is_evaluated_with_its_cost(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "not-a-real-key")
    problems = tmp_path / "mine.jsonl"
    problems.write_text('{"id": "a", "problem": "What is 6 times 7?", "answer": "42"}\n')
    with openai_server.Server() as server:
        agents = f"{server.url}#tiny?api_key_env=MY_KEY"
        printed = run("evaluate_api", tmp_path, agents, "--problems", str(problems))
    assert re.search(r"1 problem x 4 samples.*; 0\.\d{4} dollars", printed)
    assert (tmp_path / "runs/api/report.json").exists()


def test_two_models_search_one_tree(tmp_path):
    sandboxes.need_a_sandbox()
    printed = run("search_two_models", tmp_path)
    assert "best-of-n: " in printed and "Search Pass@1" in printed


def test_a_team_is_trained_evaluated_and_served(tmp_path):
    needed("torch", "hf")
    needed("openai", "dev")
    printed = run("train_locally", tmp_path)
    assert re.findall(r"^(\d) \{", printed, re.MULTILINE) == ["1", "2", "3"] and "20 problems" in printed
    assert "'confidence'" in run("serve_trained", tmp_path)


def test_each_role_trains_its_own_adapter(tmp_path):
    needed("peft", "lora")
    counts = re.findall(r"completions: (\d+)$", run("adapter_per_role", tmp_path), re.MULTILINE)
    assert len(counts) == 3 and all(0 < int(count) <= 8 for count in counts)  # those with a gradient


def test_a_team_is_trained_with_a_scaffold_and_a_rubric(tmp_path):
    lines = run("ruscarl_team", tmp_path).splitlines()
    assert [line[0] for line in lines] == ["1", "2"] and all("'verifier'" in line for line in lines)


def test_the_scripted_team_solves_its_problems(tmp_path):
    sandboxes.need_a_sandbox()
    assert run("tools", tmp_path).count("100.0%") >= 2


def test_a_checkpoint_is_trained_for_three_steps_and_evaluated(tmp_path):
    sandboxes.need_a_sandbox()
    needed("torch", "hf")
    from tiny_checkpoint import tiny_checkpoint

    checkpoint = tiny_checkpoint(tmp_path / "tiny")
    first, second, third, report = run("tools", tmp_path, checkpoint).split("\n", 3)
    assert [line.split()[0] for line in (first, second, third)] == ["1", "2", "3"]
    assert "2 problems x 1 sample" in report


def test_rows_of_a_file_become_a_report(tmp_path):
    needed("transformers", "hf")
    from tiny_checkpoint import tiny_checkpoint

    questions = [
        {"question": f"What is {i} plus {i}?", "answer": f"Add them.\n#### {2 * i}"} for i in range(3)
    ]
    rows = write_rows(tmp_path / "rows.jsonl", questions)
    flags = ["--set", "gsm8k", "--engine", "hf", "--model", tiny_checkpoint(tmp_path / "model"), "--limit", 2]
    flags += ["--rounds", 1, "--max-tokens", 4, "--out", tmp_path / "run"]
    printed = run("real_model", tmp_path, rows, *flags)
    assert "gsm8k" in printed
    assert "2 problems x 1 sample," in printed
    trees = read_run(tmp_path / "run").trees
    assert max(len(tree.turns) for tree in trees) <= 4
    turns = [turn for tree in trees for turn in tree.turns]
    assert {turn.problem_id for turn in turns} == {"gsm8k/test/0", "gsm8k/test/1"}
