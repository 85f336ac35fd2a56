"""Flags in a TOML file, under those of the command line."""

import os
import sys
from pathlib import Path

import pytest
from messages import raises

from mars_env.errors import ConfigError, MissingExtra
from mars_env.trainers.openrlhf import __main__, arguments
from mars_env.trainers.openrlhf.__main__ import main
from mars_env.trainers.openrlhf.command_line import as_words, read_argv
from mars_env.trainers.openrlhf.settings import TeamSettings, read_flags
from mars_env.trainers.openrlhf.versions import CPU_STACK, EXACT_STACK, GPU_STACK, require_stack

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


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "before")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_each_key_is_the_flag_of_its_path(file):
    settings, rest = read_flags(read_argv(["--config", str(file)]))
    assert settings.options == {"schedule": "training", "rounds": 2}
    assert settings.train_roles == ("verifier", "corrector")
    assert settings.tree_credit.strength == 0.25
    assert rest == {
        "--actor.model_name_or_path": ["Qwen/Qwen3-4B"],
        "--actor.adam.lr": ["1e-06"],
        "--actor.adam.betas": ["0.9", "0.95"],
        "--actor.eps_clip_low_high": ["0.0003", "0.0004"],
        "--train.colocate_all": [],
        "--train.batch_size": ["1024"],
    }


def test_flags_of_the_command_line_replace_those_of_the_file(file):
    words = ["--mars.env=aime-solve", f"--config={file}", "--actor.adam.betas", "0.8", "0.9", "--new", "1"]
    settings, rest = read_flags(read_argv(words))
    assert settings.env == "aime-solve"
    assert rest["--actor.adam.betas"] == ["0.8", "0.9"]
    assert rest["--new"] == ["1"]


def test_what_the_file_switches_on_can_be_turned_off(file):
    assert "--train.colocate_all" not in read_argv(["--config", str(file), "--train.colocate_all=false"])
    kept = read_argv(["--config", str(file), "--train.other=false", "--train.colocate_all"])
    assert kept["--train.other"] == ["false"]
    assert kept["--train.colocate_all"] == []


def test_words_are_read_and_written():
    words = ["stray", "--a", "1", "-2", "--b", "--c=--d", "--e="]
    assert read_argv(words) == {
        "": ["stray"],
        "--a": ["1", "-2"],
        "--b": [],
        "--c": ["--d"],
        "--e": [""],
    }
    assert read_argv(as_words(read_argv(words))) == read_argv(words)
    assert read_argv(["--a=1", "--a", "2"]) == {"--a": ["2"]}


@pytest.mark.parametrize(
    "content",
    [
        b"[mars\nenv = 1",
        b"[actor]\nadam.lr = 2026-01-01",
        b"[actor]\nbetas = [[0.9], 1]",
        b"[actor]\nbetas = []",
        b"\xff\xfe",
    ],
)
def test_wrong_file(tmp_path, content):
    path = tmp_path / "wrong.toml"
    path.write_bytes(content)
    with raises(ConfigError):
        read_argv(["--config", str(path)])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--config", "absent.toml"], "the settings file absent.toml: [Errno 2] No such file"),
        (["--config"], "--config needs a file"),
        (["--config="], "--config needs a file"),
    ],
)
def test_a_file_that_is_not_there_ends_with_a_sentence(words, sentence, capsys):
    assert main(words) == 1
    assert capsys.readouterr().err.startswith(f"error: {sentence}")


def test_modules_beside_the_file_can_be_imported(file):
    read_argv(["--config", os.path.relpath(file)])
    assert sys.path[0] == str(Path(os.path.relpath(file.parent)).absolute())
    assert os.environ["PYTHONPATH"] == f"{sys.path[0]}{os.pathsep}before"


@pytest.fixture
def nowhere(monkeypatch):
    def absent(name):
        raise arguments.PackageNotFoundError(name)

    monkeypatch.setattr(arguments, "distribution", absent)


def test_help_without_openrlhf_lists_our_flags_and_says_what_brings_the_others(nowhere, capsys):
    assert __main__.main(["--mars.env", "aime-solve", "-h"]) == 0
    told = capsys.readouterr().out
    assert all(f"  --mars.{name}\n" in told for name in TeamSettings.model_fields)
    assert "pip install --no-deps openrlhf==0.11.2" in told


def test_every_flag_of_ours_has_a_sentence():
    assert all(field.description for field in TeamSettings.model_fields.values())


def test_a_dry_run_without_openrlhf_says_what_to_install(nowhere, capsys):
    assert __main__.main(["--mars.env", "arithmetic-solve", "--dry-run"]) == 1
    assert capsys.readouterr().err.startswith(
        "error: OpenRLHF's own parser checks the flags: pip install --no-deps"
    )


@pytest.mark.parametrize(
    ("stack", "changes"),
    [
        (GPU_STACK, {"torch": "2.15.0"}),
        (GPU_STACK, {"transformers": "5.19.0"}),
        (GPU_STACK, {"flash-attn": None}),
        (GPU_STACK, {"openrlhf": "0.12.0"}),
        (GPU_STACK, {"ray": "2.50.0", "deepspeed": "0.18.0"}),
        (EXACT_STACK, {"transformers": CPU_STACK["transformers"]}),
    ],
)
def test_unsupported_stack(stack, changes):
    with raises(ConfigError):
        require_stack({**stack, **changes}.get)


def test_without_openrlhf():
    with raises(MissingExtra):
        require_stack(lambda name: None)


def test_supported_stacks():
    assert require_stack({**GPU_STACK, "torch": "2.13.0+cu130"}.get) == "GPU"
    assert require_stack({**CPU_STACK, "torch": "2.13.0+cpu"}.get) == "CPU (tests)"
    assert require_stack({**EXACT_STACK, "torch": "2.13.0+cpu"}.get) == "CPU (tests, exact)"
