import json

import openai_server
import pytest
from command_line import call_cli

import mars_env
from mars_env.rollout import read_run


def test_equal_token_baselines_stand_in_the_report(tmp_path):
    with openai_server.Server() as server:
        options = {"limit": 4, "samples": 2, "baselines": True, "out": tmp_path / "run"}
        report = mars_env.evaluate("aime-solve-verify-correct", agents=f"{server.url}#tiny", **options)
    names = [baseline.name for baseline in report.baselines]
    for kind in ("one sample", "majority", "refinement", "weighted vote", "fresh retries", "pass@k"):
        assert sum(kind in name for name in names) == 1, (kind, names)
    assert report.agents["solver_0"] == "tiny" and report.versions["mars_env"]
    assert (tmp_path / "run" / "report.tex").read_text().startswith("\\begin{table}")
    tokens = report.metrics["tokens"].estimate.value
    for baseline in report.baselines[1:]:
        assert baseline.tokens >= 0.99 * tokens or baseline.short


def test_a_dry_run_plays_nothing_and_says_what_is_sampled_and_paid_at_most():
    dry = ["evaluate", "aime-solve-verify-correct", "--agents", "scripted:x", "--dry-run"]
    said = call_cli(*dry, "--n", 2)
    assert "200 episodes, at most 4,400 model calls" in said and "baselines" not in said
    assert "the baselines take about twice that again" in call_cli(*dry, "--baselines")
    agents = ["--agents", "http://localhost:1/v1#m?max_tokens=1000000", "--limit", 3, "--price", "1,2"]
    said = call_cli("evaluate", "arithmetic-solve", *agents, "--dry-run")
    assert "3,000,000 sampled tokens ($6.00" in said  # audit E7


def test_the_lists():
    rows = [line.split("│")[1:3] for line in call_cli("envs").splitlines() if line.startswith("│")]
    described = {name.strip() for name, words in rows if words.strip()}
    assert {"solve-verify-correct", "tree-search", "aime", "aime25", "reports"} <= described
    assert "Start with" in call_cli("problems", "arithmetic", "--limit", 2)
    rows = [json.loads(line) for line in call_cli("problems", "aime", "--limit", 3, "--jsonl").splitlines()]
    assert [row.get("id") for row in rows] == [None, "aime/train/0/0", "aime/train/0/1", "aime/train/0/2"]
    assert "greater than or equal to 1" in call_cli("problems", "aime", "--limit", "-1", code=2)


def test_a_split_is_chosen_of_the_environment_s_set_or_another(tmp_path):
    common = ["evaluate", "arithmetic-solve", "--agents", "scripted:x", "--limit", 2, "--split", "test"]
    call_cli(*common, "--out", tmp_path / "own")
    assert {tree.problem.id[:-1] for tree in read_run(tmp_path / "own").trees} == {"arithmetic/test/0/"}
    call_cli(*common, "--problems", "arithmetic", "--out", tmp_path / "other")
    assert read_run(tmp_path / "other").trees[0].problem.id.startswith("arithmetic/test/")
    printed = call_cli("problems", "aime", "--split", "test", "--limit", 1, "--jsonl")
    assert json.loads(printed.splitlines()[1])["id"] == "aime/test/0/0"
    (tmp_path / "own.jsonl").write_text('{"id": "a", "problem": "1 + 1?", "answer": 2}\n')
    assert "has no splits" in " ".join(
        call_cli(*common, "--problems", tmp_path / "own.jsonl", code=2).split()
    )


@pytest.mark.parametrize("name", ["aime", "arithmetic", "programs", "reports"])
def test_printed_problems_are_a_file_of_the_same_problems(tmp_path, name):
    path = tmp_path / "printed.jsonl"
    path.write_text(call_cli("problems", name, "--limit", 3, "--jsonl"))
    printed, first = mars_env.load_problems(path), mars_env.load_problems(name, n=3)
    assert list(printed) == list(first)
    assert (printed.name, printed.generated) == (first.name, first.generated)


def test_problems_come_from_standard_input():
    rows = '{"key": "a", "question": "What is 1 + 1?", "solution": "2"}\n'
    arguments = ["--agents", r"scripted:\boxed{2}", "--problems", "-", "--json"]
    fields = ["--fields", "id=key,problem=question,answer=solution"]
    report = json.loads(call_cli("evaluate", "arithmetic-solve", *arguments, *fields, input=rows))
    assert report["counts"]["problems"] == 1
    assert report["metrics"]["solver_accuracy"]["estimate"]["value"] == 1
    said = call_cli("grade", "--problems", "-", "--completions", "-", "--out", "-", code=2)
    assert "standard input cannot be both problems and completions" in " ".join(said.split())


def test_a_module_may_hold_the_team_as_a_dict(call, tmp_path):
    """Audit E7: in Python it worked, not on the command line."""
    (tmp_path / "dict_team.py").write_text(
        "team = dict.fromkeys(('solver', 'verifier', 'corrector'), lambda seen: '5')\n"
    )
    arguments = ["arithmetic-solve-verify-correct", "--agents", "dict_team:team", "--limit", 2]
    assert "2 problems x 1 sample" in call("evaluate", *arguments)[0]
