"""README, tutorial and how-to pages: every file and command on them, in order, from an empty folder.

Set-up that only a reader can do (a key, a server) is an indented block: here a small server of the same
protocol stands in for models, and a generated set for a downloaded one.
"""

import socket
from importlib.metadata import distributions
from pathlib import Path

import openai_server
import pytest
from journeys import blocks, walk
from made_by_make import needed
from rows import write_rows
from tiny_checkpoint import tiny_checkpoint

import mars_env

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
SET_UP = {
    "README": ("AGENTS",),
    "evaluate-an-api-model": ("AGENTS", "PROBLEMS"),
    "serve-a-team": ("AGENTS", "PORT"),
}


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
