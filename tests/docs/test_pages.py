"""Every Python example of README and docs runs as it stands, page by page, without a network."""

import re
import socket
from pathlib import Path

import pytest

from mars_env.search.registry import ALGORITHMS

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/how-to").glob("*.md")),
    *sorted((ROOT / "studies").rglob("README.md")),
    ROOT / "studies" / "miniature.md",
]
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def named(page):
    return str(page.relative_to(ROOT).with_suffix(""))


def examples(page):
    return FENCE.findall(page.read_text(encoding="utf-8"))


@pytest.fixture
def offline(monkeypatch):
    connect = socket.socket.connect

    def local_only(self, address):
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise OSError(f"an example must not need the network, but connects to {address}")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local_only)


@pytest.fixture
def searches():
    """The searches that a page registers are gone after it: messages list all of them."""
    before = dict(ALGORITHMS)
    yield
    ALGORITHMS.clear()
    ALGORITHMS.update(before)


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page)], ids=named)
def test_examples_run_and_print_what_the_page_shows(page, offline, searches, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__example__"}
    for number, (source, shown) in enumerate(examples(page), start=1):
        code = compile(source, f"{page.name}, example {number}", "exec", dont_inherit=True)
        capsys.readouterr()
        exec(code, namespace)  # noqa: S102 (our own pages)
        if shown:
            assert capsys.readouterr().out == shown, f"{page.name}, example {number}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_between_pages_lead_somewhere(page):
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    for target, _, place in (link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", text)):
        other = page.parent / target if target else page
        if "://" not in target:
            assert other.exists(), f"{page.name} links to {target}"
        if other.suffix == ".md" and "://" not in target and place:
            headings = re.findall(r"^#+ (.*)$", other.read_text(encoding="utf-8").lower(), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in headings}
            assert place in slugs, f"{page.name} links to {target}#{place}"
