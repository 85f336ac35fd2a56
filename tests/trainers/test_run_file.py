"""Run files: what they say, on top of recipes; flags as paths; what is wrong with them."""

import json
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.errors import ConfigError
from mars_env.trainers.recipes import MARS2, MARSRL, RunSettings
from mars_env.trainers.run_file import load_run, parse_flags
from mars_env.trainers.tables import setting_rows

FILE = """
steps = 9
out = "runs/one"

[environment]
id = "arithmetic-solve-verify-correct"
problems = "mine.jsonl"
problem_options = { source = "copy" }

[team.model]
solver = "base"
"verifier,corrector" = "Qwen/Qwen3-4B"

[sampling]
max_tokens = 64

[train]
learning_rate = 1e-4
tree_credit = { strength = 0.25 }

[openrlhf]
actor.num_gpus_per_node = 4
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "before")
    for name in ("base", "copy"):
        (tmp_path / name).mkdir()
    (tmp_path / "mine.jsonl").touch()
    (tmp_path / "run.toml").write_text(FILE, encoding="utf-8")
    return tmp_path / "run.toml"


def test_a_file_changes_the_recipe_of_its_game_and_its_paths_are_those_of_its_folder(file, tmp_path):
    run = load_run(file)
    assert (run.steps, run.train.learning_rate, run.train.tree_credit.strength) == (9, 1e-4, 0.25)
    assert run.rollouts == MARSRL.rollouts and run.sampling.temperature == MARSRL.sampling.temperature
    assert run.out == str(tmp_path / "runs" / "one")
    assert run.team.model == {"solver": str(tmp_path / "base"), "verifier,corrector": "Qwen/Qwen3-4B"}
    assert run.environment.problems == str(tmp_path / "mine.jsonl")
    assert run.environment.problem_options == {"source": str(tmp_path / "copy")}
    assert run.openrlhf == {"actor": {"num_gpus_per_node": 4}}


def test_flags_replace_what_a_file_says(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path.parent)
    words = "--model other --steps=3 --openrlhf.vllm.num_engines 2 --out here --train.epochs 2"
    run = load_run(file, parse_flags(words.split()))
    assert (run.team.model, run.steps, run.train.epochs) == ("other", 3, 2)
    assert run.out == str(tmp_path.parent / "here")
    assert run.openrlhf == {"actor": {"num_gpus_per_node": 4}, "vllm": {"num_engines": 2}}


def test_null_takes_the_default_in_place_of_what_a_file_says(file):
    words = "--environment.problem_options null --train.tree_credit=null --environment.limit null"
    run = load_run(file, parse_flags(words.split()))
    assert (run.environment.problem_options, run.train.tree_credit, run.environment.limit) == ({}, None, None)


def test_modules_beside_the_file_can_be_imported_here_and_in_processes_that_start_later(file):
    load_run(os.path.relpath(file))
    assert sys.path[0] == str(file.parent)
    assert os.environ["PYTHONPATH"] == f"{file.parent}{os.pathsep}before"


def test_an_id_is_a_file_that_names_only_that():
    run = load_run("programs-tree-search", {"sampling": {"max_tokens": 6}})
    assert run.train.ratio == MARS2.train.ratio and run.rollouts is None
    assert (run.train.overlong.limit, run.train.overlong.buffer) == (6, 3)  # no room for the paper's buffer
    assert load_run("aime-solve", {"rollouts": "own"}).rollouts is None


@pytest.mark.parametrize("source", ["nowhere.toml", "aime", "run.toml"])
@pytest.mark.parametrize("content", [b"[environment\n", b"steps = 3", b"\xff", b"environment = 3"])
def test_what_is_no_run_is_refused(source, content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_bytes(content)
    with pytest.raises(ConfigError):
        load_run(source)


PATHS = {path: kind for path, kind, *_ in setting_rows(RunSettings())}


@given(st.sampled_from(sorted(PATHS)), st.sampled_from("abcdefgh"))
def test_an_unknown_name_is_an_error_that_suggests_the_known_one(path, letter):
    """In every table; a table for names that others choose takes any."""
    table, _, name = path.rpartition(".")
    setting = {name + letter: 1}
    for key in reversed(table.split(".") if table else []):
        setting = {key: setting}
    with pytest.raises(ConfigError) as refused:
        load_run("aime-solve", setting)
    assert f"{path}{letter}" in str(refused.value)


VALUES = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=2),
)


@given(st.dictionaries(st.sampled_from(["steps", "train.betas", "a.b.c", "a.b.d"]), VALUES, min_size=1))
def test_values_of_flags_are_what_they_were(values):
    words = [f"--{path}={json.dumps(value)}" for path, value in values.items()]
    settings = parse_flags(words)
    for path, value in values.items():
        found = settings
        for key in path.split("."):
            found = found[key]
        assert found == value


def test_forms_of_flags():
    assert parse_flags(["--model", "a", "--model", "b"]) == {"team": {"model": ["a", "b"]}}
    assert parse_flags(["--train.betas", "0.9", "0.95", "--steps", "1", "--steps", "2"]) == {
        "train": {"betas": [0.9, 0.95]},
        "steps": 2,
    }
    assert parse_flags(["--a={ b = 1 }", "--c=null", "--d"]) == {"a": {"b": 1}, "c": None, "d": True}
    for words in (["stray"], ["--a", "{ b"]):
        with pytest.raises(ConfigError):
            parse_flags(words)
