"""`mars-env view`: a stored run as a page, with the prompts that were sent, and advantages."""

import html

import pytest
from command_line import call_cli

import mars_env
from mars_env import net
from mars_env.agents import RoleAgent
from mars_env.cli.runs import FollowedRun
from mars_env.cli.stored import stored_report
from mars_env.models import ScriptedModel
from mars_env.rollout import read_run
from mars_env.types import Action, Completion, Problem, Tree, Turn
from mars_env.viewer import render_page


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
    assert "wrote" in call_cli("view", played)
    page = html.unescape((played / "report.html").read_text(encoding="utf-8"))
    assert "<h1>run</h1>" in page and "arithmetic (generated): 2 problems x 1 sample, seed 3" in page
    assert page.count("<summary>Prompt, ") == 6 and page.count("<summary>Thinking, 5 characters") == 2
    assert read_run(played).trees[0].problem.statement in page


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


def test_a_run_that_has_grown_is_not_shown_with_its_old_report(tmp_path):
    mars_env.evaluate("arithmetic-solve", agents=one, limit=4, out=tmp_path)
    interrupted(tmp_path, "arithmetic-solve", 6, limit=4, samples=4)
    report = stored(tmp_path)
    assert report.counts.episodes == len(read_run(tmp_path).trees) > 4
    assert report.samples[1] > 1 and report.headline.startswith("arithmetic (generated): 4 problems x ")


def test_an_interrupted_run_says_what_its_trees_do_not(tmp_path):
    interrupted(tmp_path / "search", "arithmetic-tree-search", 3, limit=8, oracle=True, nodes=3)
    assert any("ORACLE" in note for note in stored(tmp_path / "search").notes)
    assert stored(tmp_path / "search").counts.episodes == len(read_run(tmp_path / "search").trees) >= 2
    interrupted(tmp_path / "code", "programs-solve", 1, limit=2)
    assert stored(tmp_path / "code").set_name == "programs"


class Curt(RoleAgent):
    """An agent of a user, with words of its own, on any model."""

    async def act(self, observation, n, seed):
        prompt = [{"role": "user", "content": f"In short: {observation['problem']}"}]
        completions = await self.model.complete(prompt, n, self.sampling)
        return [Action(each.text, (each,)) for each in completions]


def test_the_page_shows_what_was_sent_by_any_agent_and_the_store_has_it_once(tmp_path):
    """Audit E1: prompts were made again, in the words of the library's own agents."""
    agents = {"solver": Curt(ScriptedModel([r"\boxed{1}"]))}
    mars_env.evaluate("arithmetic-solve", agents=agents, limit=2, samples=3, out=tmp_path)
    trees = read_run(tmp_path).trees
    sent = {tree.problem.statement: tree.turns[0].action.completions[0].messages for tree in trees}
    assert all(messages == (("user", f"In short: {text}"),) for text, messages in sent.items())
    assert len((tmp_path / "texts.jsonl").read_text().splitlines()) == len(sent) == 2
    page = html.unescape(render_page(trees, title="t"))
    assert all(f"In short: {text}" in page for text in sent)


def test_a_prompt_is_written_once_in_a_tree_and_linked_to():
    said = Completion("4", messages=(("user", "2 + 2?"),))
    turns = [Turn("p#0", str(i), None, "g", "solver_0", "m", "p", Action("4", (said,))) for i in range(3)]
    page = render_page([Tree("p#0", Problem("p", "sum", "4"), tuple(turns))], title="t")
    assert page.count("2 + 2?") == 1 and page.count('<a href="#tree-p%230/0">as in turn 0</a>') == 2


async def test_a_followed_run_is_served_to_this_machine_and_its_version_grows(played):
    rendered = []

    def render(version):
        rendered.append(version)
        return render_page(read_run(played).trees, title="t", version=version)

    followed = FollowedRun(played, render)
    await followed.start("127.0.0.1", 0)
    try:
        for _ in range(2):
            page = await net.request("GET", followed.url, 1 << 24)
        version = await net.request("GET", f"{followed.url}/version", 100)
        assert f'data-version="{version.body.decode()}"' in page.body.decode() and len(rendered) == 1
        with (played / "trees.jsonl").open("a") as file:
            file.write("\n")
        later = await net.request("GET", f"{followed.url}/version", 100)
        assert int(later.body) == int(version.body) + 1
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            assert (await net.request("GET", followed.url, 1 << 24, headers=headers)).status == 403
    finally:
        await followed.close()
