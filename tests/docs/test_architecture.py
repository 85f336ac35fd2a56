"""The page that newcomers draw the architecture from says what the code says."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def rooms():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return {name.strip().removeprefix("mars_env.") for layer in layers for name in layer.split(":")}


def test_the_table_of_rooms_names_every_room_and_no_other():
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.split("| package |")[1].split("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    named = {name.removesuffix(".py").rstrip("/") for cell in cells for name in re.findall("`([^`]+)`", cell)}
    assert named - {"__init__"} == rooms()


def test_every_module_and_package_is_a_room():
    package = ROOT / "mars_env"
    found = {
        path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert found - {"__init__", "__main__"} == rooms()
