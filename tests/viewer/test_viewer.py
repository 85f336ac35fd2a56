"""The HTML page: everything is there, nothing of a model's output is markup, no network is asked."""

import base64
import hashlib
import re
from dataclasses import replace

import pytest
from html_page import Page
from hypothesis import given, settings
from hypothesis import strategies as st
from shown_run import HOSTILE, SCRIPT, branched, hostile_tree
from small_runs import ABOUT

from mars_env.evaluation.compare import compare_trees
from mars_env.evaluation.report import RunDescription, build_report
from mars_env.types import Action, Grade, Problem, Tree, Turn
from mars_env.viewer import Display, render_page, write_page
from mars_env.viewer.summary import chart


def test_hostile_output_is_only_text():
    trees = [hostile_tree(0), hostile_tree(1)]
    report = build_report(trees, RunDescription(title=HOSTILE, problem_set=HOSTILE, generated=True))
    comparison = compare_trees(trees, trees, (HOSTILE, HOSTILE))
    text = render_page(
        trees, title=HOSTILE, report=report, comparison=comparison, notes=[HOSTILE],
        figures=[(HOSTILE, HOSTILE.encode("utf-8", "ignore"))],
    )  # fmt: skip
    page = Page(text)
    assert page.tags.count("script") == 1 and page.tags.count("style") == 1
    assert not [a for a in page.attributes if a[1].startswith("on")]
    images = [value for tag, name, value in page.attributes if (tag, name) == ("img", "src")]
    assert all(value.startswith("data:image/") for value in images) and len(images) == 1
    assert "49" not in re.sub(r"[\w+/=]{40,}", "", "".join(page.texts))  # no template was evaluated
    assert any(SCRIPT in t for t in page.texts)  # and yet it can be read
    for character in "\x1b\x07\x00\u202e\ud800":
        assert character not in text
    text.encode("utf-8")


def test_the_content_policy_allows_the_pages_own_script_and_no_address(run):
    text = render_page(run, title="A run")
    policy = next(v for _, name, v in Page(text).attributes if name == "content" and "default-src" in v)
    script = re.search(r"<script>(.*)</script>", text, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy
    assert not re.search(r"""(?:src|href|action)\s*=\s*["']?(?:https?:)?//""", text)
    assert "@import" not in text and "url(" not in text


@settings(max_examples=60)
@given(st.text(max_size=200))
def test_any_text_leaves_the_page_well_formed(text):
    tree = hostile_tree(0)
    turn = replace(tree.turns[0], action=Action(text))
    page = Page(render_page([replace(tree, turns=(turn, *tree.turns[1:]))], title=text))
    assert page.tags.count("script") == 1


def test_turns_show_what_happened(run):
    text = render_page(run, title="A run", report=build_report(run, ABOUT))
    for expected in ("says Wrong, rightly", "says Wrong, wrongly", "says Correct, wrongly", "malformed"):
        assert expected in text
    tags = [value for _, name, value in Page(text).attributes if name == "data-tags"]
    assert tags[:3] == ["right fixed", "right", "wrong misjudged"]
    assert tags[3:] == ["right fixed cut", "wrong broken misjudged", "right"]


def test_what_agents_may_read_is_told_from_what_the_grader_says():
    grade = Grade.wrong("test 3 failed", feedback="private")
    turn = Turn(
        "p#0", "0", None, "", "coder_0", "", "p", Action("x"), grade, info={"feedback": "public", "call": 0}
    )
    text = render_page([Tree("p#0", Problem("p", "?", {"tests": [1]}), (turn,))], title="A run")
    order = ("Feedback in play", "public", "Feedback of the grader", "private", "call: 0")
    places = [text.index(words, text.index(order[0])) for words in order]
    assert places == sorted(places) and "feedback: public" not in text  # nor among the notes


def test_unknown_and_faults_are_told_apart(episode):
    unknown = episode("p", 0, "S?")
    unknown = replace(unknown, turns=(replace(unknown.turns[0], reward=None),))
    text = render_page([unknown, episode("q", 0, "S+", fault="server gone")], title="t")
    assert '<span class="badge unknown">unknown</span>' in text
    assert "reward unknown" in text and "reward None" not in text
    tags = [value for _, name, value in Page(text).attributes if name == "data-tags"]
    assert tags == ["unknown graded-unknown", "fault"]
    assert "Not finished: server gone" in text


def test_branches_nest_and_episodes_do_not(run):
    assert Page(render_page(run, title="t")).attributes.count(("details", "class", "branch")) == 0
    page = Page(render_page([branched(3)], title="t"))
    assert page.attributes.count(("details", "class", "branch")) == 6
    assert page.texts.count("0.0.1") == 1


@pytest.mark.parametrize("max_turns", [1, 2, 3, 7, 4000])
def test_a_tree_that_is_cut_is_still_well_formed(max_turns):
    page = Page(render_page([branched(2000)], title="t", display=Display(max_turns=max_turns)))
    assert page.attributes.count(("article", "class", "turn solver")) == min(max_turns, 4000)


def test_a_large_run_is_several_pages_that_link_to_each_other(episode, tmp_path):
    trees = [episode(f"p{i}", 0, "S- Vw C+ Vc") for i in range(250)]
    report = build_report(trees, ABOUT)
    path = write_page(tmp_path / "run.html", trees, title="t", report=report, display=Display(max_turns=400))
    texts = [(tmp_path / name).read_text() for name in ("run.html", "run-2.html", "run-3.html")]
    assert path == tmp_path / "run.html" and len(list(tmp_path.iterdir())) == 3
    assert [text.count('class="tree"') for text in texts] == [100, 100, 50]
    assert ["<table" in text for text in texts] == [True, False, False]
    for here, text in enumerate(texts):
        links = [f'href="{name}"' in text for name in ("run.html", "run-2.html", "run-3.html")]
        assert links == [number != here for number in range(3)]


def test_long_texts_keep_their_beginning_and_their_end(episode):
    tree = episode("p", 0, "S+", answers=["begin $q$ " + "x" * 10_000 + " end"])
    text = render_page([tree], title="t", display=Display(max_characters=1000, formulas=lambda *_: None))
    assert "begin $q$" in text and " end</pre>" in text and "characters left out" in text
    assert len(text) < 30_000


def test_roles_that_act_at_one_place_have_a_bar_each(episode):
    bars = str(chart([episode("p", 0, "S+ Vc Vc"), episode("q", 0, "S- Vw C+ Vc")]))
    for title in ("Turn 3, corrector, 1 turn: 1 right", "Turn 3, verifier, 1 turn: 1 right"):
        assert title in bars
    assert bars.count("<g>") == 5
