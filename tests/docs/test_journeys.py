"""README, tutorial and how-to pages: every file and command on them, in order, from an empty folder.

Set-up that only a reader can do (a key, a server) is an indented block: here a small server of the same
protocol stands in for models, and a generated set for a downloaded one. A block with a title is a file of
that name (a second one is appended to it), `bash` is run, and `text` after it is what it prints, where `...`
stands for lines that are left out.
"""

import os
import re
import socket
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import openai_server
import pytest
from made_by_make import needed
from rows import write_rows
from tiny_checkpoint import tiny_checkpoint

import mars_env

BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "first-game.md"
PAGES = [
    page
    for page in (README, TUTORIAL, *sorted((ROOT / "docs" / "how-to").glob("*.md")))
    if "```bash" in page.read_text()
]
OPENRLHF = {"train-with-openrlhf"}
TORCH = {"README", "first-game", "own-problems", "train-locally"}


def blocks(page):
    """The kind, the title (or an empty text) and the body of each block."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def walk(page, folder, replaced=(), **variables):
    """Write the files and run the commands of a page, in order, in a folder; returns how many were run.

    ``replaced`` holds pairs: what is on the page, such as a model to download, and what a test runs instead.
    """
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        **variables,
    }
    printed, ran = None, 0
    for kind, title, body in blocks(page):
        for shown, instead in replaced:
            body = body.replace(shown, instead)
        if title:
            with (folder / title).open("a", encoding="utf-8") as file:
                file.write(body)
        elif kind == "bash":
            command = ["bash", "-euo", "pipefail", "-c", body]
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=800
            )
            assert done.returncode == 0, f"{page.stem}: {body}\n{done.stdout}\n{done.stderr}"
            printed, ran = re.sub(" +$", "", done.stdout, flags=re.MULTILINE), ran + 1
        elif kind == "python":
            printed = None  # tests/docs/test_pages.py runs it
        elif kind == "text" and printed is not None:
            for part in body.split("...\n"):
                assert part.strip() in printed, f"{page.stem} shows {part!r}; this is printed: {printed!r}"
    return ran


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    """Problems in the style of AIME, in a file of the form that the page names, and their answers."""
    rows = [
        {"id": problem.id, "problem": problem.statement, "answer": problem.reference}
        for problem in mars_env.load_problems("aime", n=30, seed=5)
    ]
    path = write_rows(tmp_path_factory.mktemp("problems") / "aime.jsonl", rows)
    return path, {row["problem"]: row["answer"] for row in rows}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_journey_from_an_empty_folder(page, problems, tmp_path):
    file, answers = problems
    if page.stem in OPENRLHF and not any(distributions(name="openrlhf")):
        pytest.skip("OpenRLHF's files are not here: make distributions and make test-engines install them")
    if page.stem in TORCH:
        needed("torch", "hf")
    if page.stem == "serve-a-team":
        needed("openai", "dev")
    replaced = []
    if page == README:  # what a reader downloads, and a training that takes hours
        short = "train run.toml --problems_per_step 1 --rollouts.group 2 --sampling.max_tokens 8"
        model = str(tiny_checkpoint(tmp_path / "model"))
        replaced = [("aime25", str(file)), ("Qwen/Qwen3-0.6B", model)]
        replaced += [("steps = 100", "steps = 1"), ("train run.toml", short)]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with openai_server.Server(answers=answers) as server:
        agents = f"{server.url}#tiny?api_key_env=MY_KEY&max_tokens=16384"
        places = {"AGENTS": agents, "PROBLEMS": str(file), "PORT": str(port)}
        assert walk(page, tmp_path, replaced, MY_KEY="not-a-real-key", **places)
    if page.stem in OPENRLHF:
        assert "GiB" in (tmp_path / "plan.txt").read_text(encoding="utf-8")


def test_the_tutorial_writes_the_game_of_the_examples():
    def lines(text):
        return [line for line in text.splitlines() if line.strip()]

    shown = "".join(body for _, title, body in blocks(TUTORIAL) if title == "debate.py")
    assert lines(shown) == lines((ROOT / "examples" / "games" / "debate.py").read_text(encoding="utf-8"))
