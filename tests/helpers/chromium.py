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


@contextmanager
def launched() -> Iterator[Any]:
    """A running browser."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    playwright.expect.set_options(timeout=60_000)  # by default 5 s, which a busy machine may need
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=120_000)
        yield browser
        browser.close()
