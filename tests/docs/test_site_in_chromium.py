"""Pages of the site in a real browser: nothing overflows, and every text can be read, light and dark.

Only some pages are built, without the reference: the README as `front`, first page, code, wide tables.
"""

import shutil
from pathlib import Path

import pytest
from chromium import UNREADABLE, launched, needs_chromium

build = pytest.importorskip("mkdocs.commands.build", reason="the site needs pip install 'mars-env[docs]'")
pytest.importorskip("material", reason="the site needs pip install 'mars-env[docs]'")
pytestmark = [pytest.mark.slow, *needs_chromium]
ROOT = Path(__file__).parents[2]
PAGES = ("front", "index", "first-game", "results", "evaluation", "how-to/evaluate-an-api-model")
HOST = "http://site.invalid/"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Some of the pages, as `make docs` shows them."""
    from mkdocs.config import load_config

    source, out = tmp_path_factory.mktemp("docs"), tmp_path_factory.mktemp("site")
    (source / "how-to").mkdir()
    (source / "front.md").write_text((ROOT / "README.md").read_text("utf-8").replace("docs/", ""), "utf-8")
    for page in PAGES[1:]:
        shutil.copy(ROOT / "docs" / f"{page}.md", source / f"{page}.md")
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
        assert found["read"] > 40, f"{name} shows next to nothing"
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
