"""Chromium for tests of pages: tests that import this are skipped where there is no Playwright.

The browser is the system's, such as Debian's package chromium: Playwright's own need not be downloaded.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

needs_chromium = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium"),
    pytest.mark.timeout(300),
]
"""Marks of a module whose tests use it."""


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
"""For a page: its texts with a contrast below 4.5, how many texts it has, how many pixels it is too wide."""


@contextmanager
def launched() -> Iterator[Any]:
    """A running browser."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    playwright.expect.set_options(timeout=60_000)  # by default 5 s, which a busy machine may need
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=120_000)
        yield browser
        browser.close()
