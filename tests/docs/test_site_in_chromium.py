"""Pages of the site in a real browser: nothing overflows, and every text can be read, light and dark.

Only some pages are built, without the reference: first page, code, wide tables.
"""

import shutil
from pathlib import Path

import pytest
from chromium import launched, needs_chromium

build = pytest.importorskip("mkdocs.commands.build", reason="the site needs pip install 'mars-env[docs]'")
pytest.importorskip("material", reason="the site needs pip install 'mars-env[docs]'")
pytestmark = [pytest.mark.slow, *needs_chromium]
ROOT = Path(__file__).parents[2]
PAGES = ("index", "first-game", "results", "evaluation")
HOST = "http://site.invalid/"

UNREADABLE = """() => {
  const brush = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const colour = css => {
    brush.clearRect(0, 0, 1, 1); brush.fillStyle = css; brush.fillRect(0, 0, 1, 1);
    return [...brush.getImageData(0, 0, 1, 1).data];
  };
  const over = (a, b) => [0, 1, 2].map(i => (a[i] * a[3] + b[i] * (255 - a[3])) / 255);
  const behind = element => {
    const colours = [];
    for (let e = element; e; e = e.parentElement) colours.push(colour(getComputedStyle(e).backgroundColor));
    return colours.reverse().reduce((paper, next) => over(next, paper), [255, 255, 255]);
  };
  const light = c => {
    const [r, g, b] = c.map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = {}, texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let read = 0;
  while (texts.nextNode()) {
    const text = texts.currentNode.data.trim(), element = texts.currentNode.parentElement;
    const {width, height} = element.getBoundingClientRect();
    const seen = element.checkVisibility({checkOpacity: true, checkVisibilityCSS: true});
    if (!text || !seen || width < 2 || height < 2) continue;
    read += 1;
    const paper = behind(element), ink = over(colour(getComputedStyle(element).color), paper);
    const [high, low] = [light(ink), light(paper)].sort((a, b) => b - a);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < 4.5) found[`${element.tagName} ${element.className}`] = [text.slice(0, 30), contrast];
  }
  return {found, read, beyond: document.documentElement.scrollWidth - innerWidth};
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Some of the pages, as `make docs` shows them."""
    from mkdocs.config import load_config

    source, out = tmp_path_factory.mktemp("docs"), tmp_path_factory.mktemp("site")
    for page in PAGES:
        shutil.copy(ROOT / "docs" / f"{page}.md", source)
    shutil.copy(ROOT / "docs" / "theme.css", source)
    shutil.copytree(ROOT / "docs" / "pictures", source / "pictures")
    changes = {"docs_dir": str(source), "site_dir": str(out), "plugins": ["search"], "nav": None}
    build.build(load_config(str(ROOT / "mkdocs.yml"), strict=False, exclude_docs=None, **changes))
    return out


@pytest.fixture(scope="module")
def browser():
    with launched() as chromium:
        yield chromium


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_and_can_be_read(site, browser, scheme, width):
    def answer(route):
        file = site / route.request.url.removeprefix(HOST).partition("?")[0]
        if route.request.url.startswith(HOST) and file.is_file():
            route.fulfill(path=file)
        else:
            route.abort()  # fonts and icons of a network

    size = {"width": width, "height": 844}
    context = browser.new_context(viewport=size, color_scheme=scheme, is_mobile=width < 500)
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.route("**/*", answer)
    for name in PAGES:
        page.goto(HOST + ("index.html" if name == "index" else f"{name}/index.html"))
        assert page.evaluate("document.body.dataset.mdColorScheme") == (
            "slate" if scheme == "dark" else "default"
        )
        found = page.evaluate(UNREADABLE)
        assert found["read"] > 50, f"{name} shows next to nothing"
        assert found["found"] == {}, f"{name}: these texts have a contrast below 4.5"
        assert found["beyond"] <= 0, f"{name} is {found['beyond']} pixels too wide"
        shown = page.eval_on_selector_all(
            ".md-content img", "all => all.filter(one => one.checkVisibility()).map(one => one.currentSrc)"
        )
        other = "light.svg" if scheme == "dark" else "dark.svg"
        assert not [picture for picture in shown if other in picture], (
            f"{name}: a picture of the other scheme"
        )
    context.close()
