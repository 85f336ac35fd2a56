"""`mars-env view`: a stored run as a page, with the prompts that its rules give, and advantages."""

import html
import sys
from dataclasses import replace

import pytest
from command_line import run_cli, said
from messages import raises
from shown_run import shown_run

import mars_env
from mars_env.cli import runs
from mars_env.cli.stored import stored_report
from mars_env.errors import StoreError
from mars_env.evaluation import Report
from mars_env.rollout import read_run, write_run
from mars_env.rollout.rewarding import attach_rewards


@pytest.fixture
def played(tmp_path):
    said = {
        "solver": r"<think>2 + 2</think>It is \boxed{5}.",
        "verifier": "Correctness: Wrong",
        "corrector": "?",
    }
    agents = {role: mars_env.models.ScriptedModel([text]) for role, text in said.items()}
    settings = {"schedule": "training", "rounds": 1, "limit": 2, "seed": 3}
    mars_env.evaluate("arithmetic-solve-verify-correct", agents=agents, out=tmp_path / "run", **settings)
    return tmp_path / "run"


def test_a_stored_run_is_shown_with_its_report_and_its_prompts(played):
    assert "wrote" in run_cli("view", played)
    page = html.unescape((played / "report.html").read_text(encoding="utf-8"))
    assert "<h1>run</h1>" in page and "arithmetic (generated): 2 problems x 1 sample, seed 3; System " in page
    assert page.count("<summary>Prompt, ") == 6 and page.count("<summary>Thinking, 5 characters") == 2
    assert "in the words of the library's own agents" in page
    assert read_run(played).trees[0].problem.statement in page


def test_without_a_report_one_is_made_of_the_trees(played, tmp_path):
    (played / "report.json").write_text("{}")  # of another version, say
    page = run_cli("view", played, "--out", "-")
    assert page.startswith("<!") and page.rstrip().endswith("</html>")
    run_cli("view", played, "--out", tmp_path / "page.html")
    assert "arithmetic (generated): 2 problems x 1 sample, seed 3" in (tmp_path / "page.html").read_text(
        "utf-8"
    )


def test_pages_without_the_extra_name_it(played, monkeypatch, capsys):
    page = played / "report.html"
    runs.view(played)
    assert "mars-env[viewer]" not in page.read_text("utf-8") + capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "latex2mathml", None)
    runs.view(played)
    assert "mars-env[viewer]" in html.unescape(page.read_text("utf-8"))
    assert capsys.readouterr().err.count("mars-env[viewer]") == 1


def stored(folder):
    return stored_report(folder, read_run(folder))


def one(observation):
    return r"\boxed{1}"


def interrupted(folder, env_id, after, **settings):
    """Plays until so many trees are finished."""
    trees = []

    def stop(tree):
        trees.append(tree)
        if len(trees) == after:
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        mars_env.evaluate(env_id, agents=one, out=folder, on_tree=stop, concurrency=1, **settings)


def test_a_report_that_fits_its_run_is_shown_as_it_was_written(played):
    assert stored(played) == Report.model_validate_json((played / "report.json").read_text())


def test_a_run_that_has_grown_is_not_shown_with_its_old_report(tmp_path):
    mars_env.evaluate("arithmetic-solve", agents=one, limit=4, out=tmp_path)
    interrupted(tmp_path, "arithmetic-solve", 6, limit=4, samples=4)
    report = stored(tmp_path)
    assert report.counts.episodes == len(read_run(tmp_path).trees) > 4
    assert report.samples[1] > 1 and report.headline.startswith("arithmetic (generated): 4 problems x ")


def test_rewards_that_were_given_afterwards_are_shown(tmp_path):
    mars_env.evaluate("arithmetic-solve", agents=lambda o: r"\boxed{1}", limit=4, out=tmp_path)
    attach_rewards(tmp_path, {tree.id: 0.75 for tree in read_run(tmp_path).trees})
    assert stored(tmp_path).metrics["reward:solver"].estimate.value == 0.75


def test_an_interrupted_run_says_what_its_trees_do_not(tmp_path):
    interrupted(tmp_path / "search", "arithmetic-tree-search", 3, limit=8, oracle=True, nodes=3)
    assert any("ORACLE" in note for note in stored(tmp_path / "search").notes)
    assert stored(tmp_path / "search").counts.episodes == len(read_run(tmp_path / "search").trees) >= 2
    interrupted(tmp_path / "code", "nibbles-solve", 1, limit=2)
    assert stored(tmp_path / "code").set_name == "nibbles (generated)"


def test_a_run_of_an_unknown_game_is_shown_without_prompts(tmp_path):
    trees = shown_run(20)
    write_run(tmp_path / "run", trees, {"title": "no_such_module:sums-solve"})
    assert read_run(tmp_path / "run").trees == tuple(trees)
    told = said("view", tmp_path / "run", "--advantage", "mean_centred")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "the page shows no prompts" in told and "--env" in told
    assert "<summary>Prompt, " not in page and "code-0#0" in page


def test_advantages_stand_beside_the_turns(played, tmp_path):
    first, *_ = read_run(played).trees
    turns = [replace(turn, group_id="g", reward=float(i)) for i, turn in enumerate(first.turns)]
    write_run(
        tmp_path / "other", [replace(first, turns=tuple(turns))], {"title": "arithmetic-solve-verify-correct"}
    )
    run_cli("view", tmp_path / "other", "--advantage", "mean_centred")
    page = (tmp_path / "other" / "report.html").read_text(encoding="utf-8")
    assert "advantage -1" in page and "advantage +1" in page


def test_a_run_that_is_written_twice_is_the_same_run(tmp_path):
    trees = shown_run(20)
    for _ in range(2):
        write_run(tmp_path, trees, {"title": "t"})
    assert len((tmp_path / "trees.jsonl").read_text().splitlines()) == len(trees)
    with raises(StoreError):
        write_run(tmp_path, trees, {"title": "other"})
