"""Every run file of examples/openrlhf: what it would do, its flags checked by OpenRLHF's own parser."""

import os
import re
import sys
from pathlib import Path

import pytest
from command_line import run_python
from openrlhf_on_cpu import EXAMPLES

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.launch import launch
from mars_env.trainers.openrlhf.planning.dry_run import dry_run
from mars_env.trainers.run_file import load_run, parse_flags

FILES = sorted(EXAMPLES.glob("*.toml"))
SMOKE = EXAMPLES / "marsrl_smoke_1gpu.toml"


@pytest.fixture(autouse=True)
def beside_the_files(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "helpers"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_plan_of_a_file_is_the_stored_one_and_fits_as_its_comment_says(file, tmp_path, monkeypatch):
    """`STORE_PLANS=1` in the environment writes plans anew; read the difference before you commit it."""
    monkeypatch.chdir(tmp_path)
    comment = re.sub(r"\s+", " ", file.read_text(encoding="utf-8").replace("\n#", " "))
    promised = re.search(
        r"--dry-run(?: --gpu-memory (\d+))?\S* prints .*?about (\d+) GiB .*?(\d+) GiB while", comment
    )
    plan, fits = dry_run(load_run(file), float(promised[1]) if promised and promised[1] else 80.0)
    text = plan.replace(f"{EXAMPLES.parents[1]}/", "") + "\n"
    stored = EXAMPLES / "plans" / f"{file.stem}.txt"
    if os.environ.get("STORE_PLANS"):
        stored.write_text(text, encoding="utf-8")
    assert stored.read_text(encoding="utf-8") == text
    assert fits
    assert "no estimate" not in text
    for number, phase in re.findall(r"(\d+) GiB while (rolling out|training)", comment if promised else ""):
        name = {"rolling out": "rollout"}.get(phase, phase)
        sizes = map(float, re.findall(rf"{name} +([\d.]+) GiB", text))
        assert any(abs(size - float(number)) <= 1 for size in sizes), phase


@pytest.mark.parametrize(
    "own",
    [
        {"no": {"such": {"flag": 1}}},
        {"train": {"micro_batch_size": "many"}},
        {"ckpt": {"output": "elsewhere"}},
        {"use_ms": True},
        {"train": {"partial_rollout_enable": True}},
    ],
)
def test_openrlhf_s_refusals_of_flags_are_passed_on(own):
    with pytest.raises(ConfigError):
        dry_run(load_run(SMOKE, {"openrlhf": own}), 80)


@pytest.mark.parametrize(
    "flags",
    [
        ["--sampling.max_tokens", "4096"],
        ["--openrlhf.vllm.num_engines", "0"],
        ["--openrlhf.vllm.num_engines", "3"],
        ["--openrlhf.ckpt.max_num", "1", "--model", "nowhere/at/all"],
    ],
)
def test_a_run_refuses_before_its_start_what_a_dry_run_refuses(flags, tmp_path):
    run = load_run(SMOKE, parse_flags([*flags, "--out", str(tmp_path / "run")]))
    for refused in (lambda run: launch(run, []), lambda run: dry_run(run, 80)):
        with pytest.raises(ConfigError):
            refused(run)
    assert not list(tmp_path.iterdir())


BLOCKED = """
import sys

HEAVY = ("torch", "vllm", "ray", "openrlhf", "transformers", "deepspeed", "flash_attn")

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HEAVY:
            raise ModuleNotFoundError(f"{name} is not installed", name=name)

sys.meta_path.insert(0, Blocked())
from mars_env.cli import main
sys.argv[1:] = ["train", *sys.argv[1:]]
main()
"""


def light(*arguments):
    """The command in a process that can import neither torch nor any part of OpenRLHF, Ray or vLLM."""
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return run_python(BLOCKED, *arguments, env=os.environ | paths)


def test_a_light_install_is_enough_for_plans_and_help(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = str(EXAMPLES / "marsrl_8gpus.toml")
    assert light(file, "--dry-run").returncode == 0
    assert light(file, "--dry-run", "--gpu-memory", "24").returncode == 3
    assert light(file, "--dry-run", "--openrlhf.vllm.num_engines", "3").returncode == 2
    assert "train.learning_rate" in light("--help").stdout
    assert not list(tmp_path.iterdir())
