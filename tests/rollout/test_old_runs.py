"""Runs that the first version stored still open, resume, grade again, view and export.

`runs_of_the_first_version` holds them as they were written: episodes (and the same run, killed), MarsRL's
groups by the miniature with their token ids, and a tree search over programs.
"""

import json
import shutil
from pathlib import Path

import pytest
from command_line import run_cli, timeless

import mars_env
from mars_env.rollout import read_run
from mars_env.rollout.regrade import regrade

RUNS = Path(__file__).with_name("runs_of_the_first_version")
NAMES = ("episodes", "groups", "search")
GAMES = {
    "episodes": ("arithmetic-solve-verify-correct", {"rounds": 1}),
    "groups": ("arithmetic-solve-verify-correct", {"schedule": "training"}),
    "search": ("programs-tree-search", {"nodes": 4, "agents": 2}),
}


@pytest.fixture
def stored(tmp_path):
    shutil.copytree(RUNS, tmp_path / "stored")
    return tmp_path / "stored"


def resume(run):
    options = ("--n", 2, "--limit", 3, "--seed", 7, "--set", "rounds=1")
    team = ("--agents", "old_run_team:answer", "--out", run)
    run_cli("evaluate", "arithmetic-solve-verify-correct", *options, *team)


@pytest.mark.parametrize("name", NAMES)
def test_they_open(name):
    trees = read_run(RUNS / name).trees
    rows = [json.loads(line) for line in (RUNS / name / "turns.jsonl").read_text().splitlines()]
    turns = [turn for tree in trees for turn in tree.turns]
    assert len(turns) == len(rows) > 0
    assert {turn.action.text for turn in turns} == {row["text"] for row in rows}
    sampled = [sum(len(completion.token_ids) for completion in turn.action.completions) for turn in turns]
    assert sum(sampled) == sum(len(c["token_ids"]) for row in rows for c in row["completions"])


def test_a_killed_one_resumes(stored, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(RUNS), prepend=":")
    before = (stored / "interrupted" / "turns.jsonl").read_bytes().count(b"\n")
    resume(stored / "interrupted")
    assert timeless(read_run(stored / "interrupted")) == timeless(read_run(RUNS / "episodes"))
    assert (stored / "interrupted" / "turns.jsonl").read_bytes().count(b"\n") > before


def test_a_finished_one_is_not_played_again(stored, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(RUNS), prepend=":")
    resume(stored / "episodes")
    assert (stored / "episodes" / "turns.jsonl").read_bytes() == (
        RUNS / "episodes" / "turns.jsonl"
    ).read_bytes()


@pytest.mark.parametrize("name", NAMES)
async def test_grading_again_gives_the_same(name):
    env_id, settings = GAMES[name]
    game = mars_env.make(env_id, **settings).game
    trees = read_run(RUNS / name).trees
    for tree in trees:
        again = await regrade(tree, game)
        assert [turn.grade and turn.grade.verdict for turn in again.turns] == [
            turn.grade and turn.grade.verdict for turn in tree.turns
        ]
        assert [turn.reward for turn in again.turns] == [turn.reward for turn in tree.turns]
    assert trees


@pytest.mark.parametrize("name", NAMES)
def test_they_can_be_viewed(name, stored, tmp_path):
    run_cli("view", stored / name, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert all(tree.problem.id in page for tree in read_run(RUNS / name).trees)


@pytest.mark.parametrize("name", NAMES)
def test_they_can_be_exported(name, stored, tmp_path):
    env_id, settings = GAMES[name]
    named = ["--env", env_id, *(f"--set={key}={value}" for key, value in settings.items())]
    run_cli("export", stored / name, tmp_path / "rows.jsonl", *(named if name == "groups" else ()))
    assert (tmp_path / "rows.jsonl").exists()
    run_cli("export", stored / name, tmp_path / "turns.parquet", "--format", "parquet")
    assert (tmp_path / "turns.parquet").stat().st_size > 0
