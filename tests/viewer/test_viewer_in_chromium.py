"""The page of a run in a real browser: a way through it, hostile texts, a phone, no scripts.

The browser is the system's, such as Debian's package chromium: Playwright's own need not be downloaded.
"""

import os
import shutil

import pytest
from shown_run import HOSTILE, hostile_tree, shown_run
from small_runs import ABOUT

from mars_env.evaluation.report import RunDescription, build_report
from mars_env.types import Action, Grade, Problem, Tree, Turn
from mars_env.viewer import Display, Episode, write_page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium"),
    pytest.mark.timeout(300),
]
PHONE = {"viewport": {"width": 390, "height": 760}, "is_mobile": True, "has_touch": True}


@pytest.fixture(scope="module")
def browser():
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    playwright.expect.set_options(timeout=60_000)  # by default 5 s, which a busy machine may need
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=120_000)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page; afterwards: nothing was asked of a network, and nothing was wrong."""
    told, asked, contexts = [], [], []

    def open(trees, **how):
        options = {key: how.pop(key) for key in ("viewport", "is_mobile", "has_touch", "color_scheme",
                                                 "java_script_enabled") if key in how}  # fmt: skip
        path = write_page(tmp_path / "run.html", trees, **{"title": "A run", **how})
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("dialog", lambda dialog: told.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri(), timeout=120_000)
        return page

    yield open
    for context in contexts:
        context.close()
    assert told == [] and len(set(asked)) == len(contexts) and all(url.startswith("file:") for url in asked)


def shown_ids(page):
    return page.eval_on_selector_all(
        "details.tree",
        "trees => trees.filter(tree => !tree.hidden).map(tree => tree.querySelector('.id').textContent)",
    )


def box_of(locator):
    """Where something is shown, once it is: a browser lays out what was moved or opened a moment later."""
    playwright.expect(locator).to_be_visible()
    return locator.bounding_box()


def open_everything(page):
    """Opens the trees and all that is folded in them. The turns come with an event, after the opening."""
    page.click("#open")
    for _ in ("trees", "what was in them"):
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        playwright.expect(page.locator("details.tree[open] > noscript")).to_have_count(0)


def test_a_way_through_a_run(opened):
    trees = shown_run(80)
    advantages = {("code-0#0", "0.1"): 1.5}
    report = build_report(trees, ABOUT)
    page = opened(trees, report=report, display=Display(advantages))
    expect = playwright.expect
    everything = shown_ids(page)
    assert everything == [tree.id for tree in trees]
    assert page.locator("article").count() == 0  # no tree is a part of the page until it is opened

    # Filters and order.
    page.select_option("#outcome", "fixed")
    fixed = shown_ids(page)
    assert 0 < len(fixed) < len(trees)
    expect(page.locator(f"details.tree >> text={fixed[0]} >> ..")).to_contain_text("fixed")
    page.select_option("#outcome", "")
    page.select_option("#order", "failures")
    first = page.locator("details.tree").first
    expect(first).to_contain_text("wrong")
    assert shown_ids(page) != everything
    page.select_option("#order", "")
    assert shown_ids(page) == everything
    page.fill("#query", "units sum-")
    page.wait_for_url("**#?q=units+sum-")
    expect(page.locator("#count")).not_to_have_text(f"{len(trees)} of {len(trees)}")
    assert 0 < len(shown_ids(page)) < len(trees) - 2
    page.keyboard.press("Escape")
    assert shown_ids(page) == everything

    # The address holds what is filtered: a colleague sees the same episodes.
    page.select_option("#outcome", "wrong")
    page.select_option("#order", "tokens")
    ids = shown_ids(page)
    page.goto("about:blank")
    page.go_back()
    assert shown_ids(page) == ids != everything and page.input_value("#outcome") == "wrong"
    page.select_option("#outcome", "")
    page.select_option("#order", "")
    chart = page.locator("svg.chart")
    assert chart.locator("g").count() >= 4 and "solver" in chart.text_content()
    assert page.locator("details.tree .statement math").count() > 0

    # A search: its picture, whose circles lead to the turns.
    page.locator("details.tree > summary").first.click()
    expect(page.locator("article")).to_have_count(9)
    drawing = page.locator("svg.drawing")
    assert drawing.locator("circle.node").count() == 9 and drawing.locator("circle.node.right").count() == 1
    assert "n=5" in drawing.text_content()
    assert page.locator("article", has_text="advantage +1.5").count() == 1
    drawing.locator("a").nth(4).click()
    here = page.locator("article.here")
    expect(here).to_have_count(1)
    assert here.locator(".id").text_content() == "0.1.0.0"
    assert page.url.endswith("#tree-code-0%230/0.1.0.0")
    assert here.locator("code.program .k").count() == 2  # coloured: def and for
    here.locator("summary", has_text="Changes to").click()
    assert here.locator("ins").first.text_content() == "+     for i in range(n + 1):"
    here.locator("summary", has_text="Log-probabilities").click()
    assert box_of(here.locator("svg.curve"))["height"] > 20

    # An episode: prompt and thinking are folded, formulas are drawn.
    page.keyboard.press("c")
    tree = page.locator("details.tree", has=page.locator(f".id >> text={fixed[0]}"))
    tree.locator("summary").first.click()
    solver = tree.locator("article").first
    box = box_of(solver.locator("pre.prose:visible mfrac").first)
    assert box["height"] > 10 and box["width"] > 3
    assert box_of(solver.locator("pre.prose:visible menclose").first)["width"] > 10
    thinking = solver.locator("details.thinking")
    assert not thinking.locator("pre").is_visible()
    thinking.locator("summary").click()
    expect(thinking).to_contain_text("Let me think", use_inner_text=True)
    expect(thinking).not_to_contain_text("<think>")
    solver.locator("summary", has_text="Prompt,").click()
    expect(solver).to_contain_text("You solve problems.", use_inner_text=True)


def test_hostile_texts_do_nothing(opened):
    trees = [hostile_tree(0), hostile_tree(1)]
    report = build_report(trees, RunDescription(title=HOSTILE, problem_set=HOSTILE, generated=True))
    page = opened(
        trees, title=HOSTILE, report=report, notes=[HOSTILE],
    )  # fmt: skip
    open_everything(page)
    playwright.expect(page.locator("article")).to_have_count(6)
    page.wait_for_timeout(300)  # for what scripts in the texts would do
    assert page.evaluate("window.owned") is None
    found = page.evaluate("""() => {
      const all = (name) => [...document.querySelectorAll(name)];
      const handled = (e) => [...e.attributes].some((a) => a.name.startsWith("on"));
      return {
        scripts: document.scripts.length,
        foreign: all("img, iframe, object, embed, link, form, base, style:not(head > style)").length,
        handlers: all("*").filter(handled).length,
        links: all("[href]").filter((e) => !e.getAttribute("href").startsWith("#")).length,
        styled: all("[style]").length,
      };
    }""")
    assert found == {"scripts": 1, "foreign": 0, "handlers": 0, "links": 0, "styled": 0}
    for text in ("<img src=x onerror=", "[link](javascript:"):  # they can be read
        playwright.expect(page.locator("main")).to_contain_text(text, use_inner_text=True)
    assert not {"\x1b", "\x07", "\u202e"} & set(page.text_content("main"))


def test_a_phone_shows_all_without_scrolling_sideways(opened):
    wide = "x = " + " + ".join(f"a_{{{i}}}" for i in range(60))
    problem = Problem("wide", f"A long formula: \\[{wide}\\]", "1" * 300)
    program = f"```python\nprint('{'y' * 300}')\n```"
    turn = Turn("wide#0", "0", None, "", "solver_0", "", "wide", Action(f"${wide}$\n{'z' * 400}\n{program}"))
    trees = [Tree("wide#0", problem, (turn,)), *shown_run(40)]
    report = build_report(trees, ABOUT)
    page = opened(trees, report=report, **PHONE)
    open_everything(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.documentElement.clientWidth") == 390
    for control in page.locator("#controls > :is(input, select, button)").all():
        assert box_of(control)["height"] >= 36  # a finger hits it


def test_without_scripts_the_page_is_still_whole(opened):
    page = opened(shown_run(30), java_script_enabled=False)
    assert not page.locator("#controls").is_visible()
    page.locator("details.tree > summary").first.click()
    playwright.expect(page.locator("details.tree").first.locator("article").first).to_be_visible()


def test_a_long_run_is_laid_out_in_parts(opened):
    trees = [Tree(f"t{n:03}#0", Problem(f"t{n:03}", "?", "1", "math"), ()) for n in range(450)]
    page = opened(trees)
    expect = playwright.expect
    expect(page.locator("#count")).to_have_text("450 of 450")
    assert len(shown_ids(page)) == 200
    page.locator("#more").scroll_into_view_if_needed()
    expect(page.locator("#more")).to_contain_text("400 of 450")
    page.locator("#more").scroll_into_view_if_needed()
    expect(page.locator("#more")).to_be_hidden()
    assert shown_ids(page) == [tree.id for tree in trees]

    # What is not laid out is still found, linked to, and reached by keys.
    page.fill("#query", "t44")
    expect(page.locator("#count")).to_have_text("10 of 450")
    page.keyboard.press("Escape")
    assert len(shown_ids(page)) == 200
    page.evaluate("location.hash = 'tree-t449%230'")
    expect(page.locator("details.tree[open]")).to_have_count(1)
    assert page.locator("[id='tree-t449%230']").is_visible()


def test_an_episode_is_open_in_the_cell_of_a_notebook(browser):
    """A frame without an origin: its script fills in the turns, and model output runs nothing."""
    text = "<script>document.title = 'owned'</script> It is \\boxed{4}."
    turn = Turn("p#0", "0", None, "", "solver_0", "tiny", "p", Action(text), Grade.correct())
    tree = Tree("p#0", Problem("p", "What is 2 + 2?", "4"), (turn,), final="0")
    page = browser.new_page()
    page.set_content(Episode(tree)._repr_html_())
    inside = page.frame_locator("iframe")
    playwright.expect(inside.locator("details.tree[open]")).to_contain_text("document.title = 'owned'")
    assert page.frames[1].title() == "p#0"
    page.close()
