"""``--help`` and wrong flags without OpenRLHF: our own part is there, and sentences instead of tracebacks."""

import pytest
from messages import raises

from mars_env.errors import ConfigError, MissingExtra
from mars_env.trainers.openrlhf import __main__, arguments
from mars_env.trainers.openrlhf.settings import TeamSettings
from mars_env.trainers.openrlhf.versions import CPU_STACK, EXACT_STACK, GPU_STACK, require_stack


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
