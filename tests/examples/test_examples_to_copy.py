"""The examples to copy are short, run as they stand, and print what they promise."""

import re

import openai_server
import pytest
import sandboxes
from examples_run import EXAMPLES, run
from made_by_make import needed

TO_COPY = (
    "evaluate_api",
    "own_reward",
    "train_locally",
    "serve_trained",
    "adapter_per_role",
    "search_two_models",
    "tools",
    "demo",
    "echo",
    "trl_marsrl",
    "real_model",
)


@pytest.mark.parametrize("name", TO_COPY)
def test_an_example_is_short_and_says_how_it_is_run(name):
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) < 80
    assert f"python examples/{name}.py" in source


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


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_team_is_trained_evaluated_and_served(tmp_path):
    needed("torch", "hf")
    needed("openai", "dev")
    printed = run("train_locally", tmp_path)
    assert re.findall(r"^(\d) \{", printed, re.MULTILINE) == ["1", "2", "3"] and "20 problems" in printed
    assert "'confidence'" in run("serve_trained", tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_role_trains_its_own_adapter(tmp_path):
    needed("peft", "lora")
    assert len(re.findall(r"completions: 8$", run("adapter_per_role", tmp_path), re.MULTILINE)) == 3


def test_learner_and_sampler_of_two_processes_train_and_end(tmp_path, monkeypatch):
    monkeypatch.setenv("ECHO_KEY", "a key")
    printed = run("echo", tmp_path)
    [rewards] = re.findall(r"^rewards: (.*)$", printed, re.MULTILINE)
    assert len(rewards.split()) == 12 and "the learner busy: an update takes" in printed
    [answers] = re.findall(r"^(\d+) answers$", printed, re.MULTILINE)
    assert int(answers) >= 12 * 4


def test_a_team_is_trained_with_a_scaffold_and_a_rubric(tmp_path):
    assert len((EXAMPLES / "ruscarl_team.py").read_text(encoding="utf-8").splitlines()) <= 60
    lines = run("ruscarl_team", tmp_path).splitlines()
    assert [line[0] for line in lines] == ["1", "2"] and all("'verifier'" in line for line in lines)
