"""Flags in a TOML file, under those of the command line."""

import os
import sys
from pathlib import Path

import pytest

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.__main__ import main
from mars_env.trainers.openrlhf.settings import read_flags
from mars_env.trainers.openrlhf.settings_file import flags_of, import_beside, with_file

FILE = """
# What it is for.
[mars]
env = "arithmetic-solve-verify-correct"
options = { schedule = "training", rounds = 2 }
train_roles = ["verifier", "corrector"]
tree_credit = { strength = 0.25 }

[actor]
model_name_or_path = "Qwen/Qwen3-4B"
adam.lr = 1e-6
adam.betas = [0.9, 0.95]
eps_clip_low_high = [3e-4, 4e-4]

[train]
colocate_all = true
dynamic_batch_enable = false
batch_size = 1_024
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_each_key_is_the_flag_of_its_path_as_it_is_written(file):
    words, found = with_file(["--config", str(file)])
    assert found == file
    settings, rest = read_flags(words)
    assert settings.options == {"schedule": "training", "rounds": 2}
    assert settings.train_roles == ("verifier", "corrector")
    assert settings.tree_credit.strength == 0.25
    assert rest == [
        "--actor.model_name_or_path", "Qwen/Qwen3-4B", "--actor.adam.lr", "1e-6", "--actor.adam.betas", "0.9",
        "0.95", "--actor.eps_clip_low_high", "3e-4", "4e-4", "--train.colocate_all", "--train.batch_size",
        "1024",
    ]  # fmt: skip


def test_flags_of_the_command_line_replace_those_of_the_file(file):
    words, _ = with_file(
        ["--mars.env=aime-solve", f"--config={file}", "--actor.adam.betas", "0.8", "0.9", "--new", "1"]
    )
    settings, rest = read_flags(words)
    assert settings.env == "aime-solve"
    assert rest.count("--actor.adam.betas") == 1
    assert rest[-5:] == ["--actor.adam.betas", "0.8", "0.9", "--new", "1"]


def test_what_the_file_switches_on_can_be_turned_off(file):
    words, _ = with_file(["--config", str(file), "--train.colocate_all=false"])
    assert not any("colocate_all" in word for word in words)
    kept, _ = with_file(["--config", str(file), "--train.other=false", "--train.colocate_all"])
    assert kept[-2:] == ["--train.other=false", "--train.colocate_all"]
    assert kept.count("--train.colocate_all") == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[mars\nenv = 1", "is no TOML: "),
        ("[actor]\nadam.lr = 2026-01-01", r"--actor\.adam\.lr takes texts and numbers, got datetime\.date"),
        ("[actor]\nbetas = [[0.9], 1]", r"--actor\.betas takes texts and numbers, got \[0\.9\]"),
        ("[actor]\nbetas = []", r"--actor\.betas takes texts and numbers, got \[\]"),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(tmp_path, text, sentence):
    path = tmp_path / "wrong.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=sentence):
        with_file(["--config", str(path)])


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is no TOML"):
        with_file(["--config", str(path)])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--config", "absent.toml"], "the settings file absent.toml cannot be read: No such file"),
        (["--config"], "--config needs a file"),
        (["--config="], "--config needs a file"),
        (["--config", "a", "--config=b"], "one --config is enough, got a, b"),
    ],
)
def test_a_file_that_is_not_there_ends_with_a_sentence(words, sentence, capsys):
    assert main(words) == 1
    assert capsys.readouterr().err.startswith(f"error: {sentence}")


def test_modules_beside_the_file_can_be_imported(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "before")
    import_beside(Path(os.path.relpath(tmp_path / "run.toml")))
    assert sys.path[0] == str(Path(os.path.relpath(tmp_path)).absolute())
    assert os.environ["PYTHONPATH"] == f"{sys.path[0]}{os.pathsep}before"


def test_a_table_below_the_team_s_is_a_value():
    assert flags_of({"mars": {"policies": {"one": "a"}}}) == {"--mars.policies": ['{"one": "a"}']}
