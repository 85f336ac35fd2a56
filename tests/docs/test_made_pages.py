"""What scripts make of the code: the command line's page, the pictures, the table of the demo."""

import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from made_by_make import needed

import mars_env
from mars_env import Problem

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "script",
    [
        "draw_architecture.py",
        "make_programs.py",
        "write_command_line.py",
        pytest.param("draw_pictures.py", marks=pytest.mark.slow),
    ],
)
def test_what_a_script_has_made_is_what_it_makes(script):
    if script == "draw_pictures.py":
        needed("torch", "hf")
    command = [sys.executable, f"scripts/{script}", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_episode_of_the_picture_is_played_by_the_environment_with_these_rewards():
    recorded = json.loads((PICTURES / "episode.json").read_text(encoding="utf-8"))
    problem = Problem(**recorded["problem"])
    env = mars_env.make("arithmetic-solve-verify-correct", problems=[problem], rounds=3, accept_after=1)
    env.reset(seed=0)
    for turn in recorded["turns"]:
        assert env.agent_selection == turn["agent"]
        env.step(turn["text"])
    assert [turn.reward for turn in env.tree.turns] == [turn["reward"] for turn in recorded["turns"]]
    assert [turn.grade and turn.grade.verdict for turn in env.tree.turns] == [
        turn["grade"] for turn in recorded["turns"]
    ]
    assert env.tree.final == env.tree.turns[2].id


def test_the_first_page_shows_every_picture():
    shown = {
        page: set(
            re.findall(r'(?:srcset|src)="(?:docs/)?pictures/([\w-]+\.svg)"', (ROOT / page).read_text("utf-8"))
        )
        for page in ("README.md", "docs/index.md")
    }
    there = {path.name for path in PICTURES.glob("*.svg")}
    assert shown["docs/index.md"] == there
    assert set() < shown["README.md"] <= there
    for name in there:
        assert len(list(ElementTree.parse(PICTURES / name).iter())) > 5


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="there is no Chromium")
def test_chromium_shows_the_pictures_and_they_are_not_blank(tmp_path):
    """All on one page; each is cut out of the screenshot, and must hold several colours and its own paper."""
    numpy, image = needed("numpy", "dev"), needed("matplotlib.image", "plots")
    names = sorted(path.name for path in PICTURES.glob("*.svg"))
    cells = "".join(
        f'<img src="{(PICTURES / name).as_uri()}" style="top:{400 * i}px">' for i, name in enumerate(names)
    )
    style = """body { margin: 0; background: #ff00ff }
        img { position: absolute; left: 0; width: 400px; height: 400px; object-fit: contain;
              object-position: 0 0 }"""
    page, shot = tmp_path / "page.html", tmp_path / "shot.png"
    page.write_text(f"<style>{style}</style>{cells}", encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    size = f"--window-size=400,{400 * len(names)}"
    subprocess.run(
        [*command, size, f"--screenshot={shot}", page.as_uri()], check=True, capture_output=True, timeout=240
    )
    pixels = (image.imread(shot)[:, :, :3] * 255).round().astype(int)
    for i, name in enumerate(names):
        cell = pixels[400 * i : 400 * (i + 1)].reshape(-1, 3)
        drawn = cell[~(cell == [255, 0, 255]).all(1)]
        assert len(drawn) > 10_000, f"{name} is not shown"
        paper = [255, 255, 255] if name.endswith("light.svg") else [13, 17, 23]
        ink = drawn[~(drawn == paper).all(1)]
        assert len(ink) > 300 and len(numpy.unique(ink, axis=0)) > 10, f"{name} is blank"


def test_what_the_demo_prints_is_the_ledgers_first_seed():
    """`make demo` plays the study's recipe on seed 0 (tests/examples/test_demo.py)."""
    ledger = (ROOT / "studies" / "marsrl" / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in ledger]
    figures = {
        row["arm"]: row["figures"] for row in rows if row["seed"] == 0 and row["arm"] in ("none", "all")
    }
    names = {
        "Solver": "solver_accuracy",
        "System": "system_accuracy",
        "Verifier recall (errors)": "verifier_recall",
    }
    for title, name in names.items():
        before, after = re.search(rf"{re.escape(title)} ([\d.]+) → ([\d.]+)[,.]", README).groups()
        assert float(before) == round(100 * figures["none"][name], 1)
        assert float(after) == round(100 * figures["all"][name], 1)
