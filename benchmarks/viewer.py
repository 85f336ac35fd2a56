"""The page of a large run in a real Chromium: how long it takes to open, filter, order and search.

    python benchmarks/viewer.py [--turns 10000] [--rounds 5]

Needs Playwright and a Chromium (`apt-get install chromium`). Each round opens the page in a fresh browser
context. "Opens" ends when the first frame with all trees has been drawn; the other steps end two frames
after the click, so that layout and painting are in them.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from mars_env.evaluation import RunDescription, build_report
from mars_env.viewer import write_page

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
from shown_run import shown_run

FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def timed(page, act):
    began = time.perf_counter()
    act()
    page.evaluate(FRAMES)
    return time.perf_counter() - began


def measured(browser, url):
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    times = {"opens": timed(page, lambda: page.goto(url))}
    times["filter: broken"] = timed(page, lambda: page.select_option("#outcome", "broken"))
    times["filter: all"] = timed(page, lambda: page.select_option("#outcome", ""))
    times["order: failures first"] = timed(page, lambda: page.select_option("#order", "failures"))
    times["open a tree"] = timed(page, lambda: page.locator("details.tree > summary").first.click())
    page.wait_for_timeout(3000)  # a reader reads; meanwhile the words are indexed
    times["search: two words"] = timed(page, lambda: search(page, "units sum-1"))
    context.close()
    return times


def search(page, words):
    before = page.text_content("#count")
    page.fill("#query", words)
    while page.text_content("#count") == before:
        time.sleep(0.005)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    trees = shown_run(given.turns)
    turns = sum(len(tree.turns) for tree in trees)
    report = build_report(trees, RunDescription(title="sums", problem_set="sums", generated=False))
    began = time.process_time()
    path = Path(tempfile.mkdtemp()) / "run.html"
    page = write_page(path, trees, title="Sums", report=report)
    written = time.process_time() - began
    size = page.stat().st_size / 1e6
    print(f"{turns:,} turns in {len(trees):,} trees: {size:.1f} MB, {written:.1f} CPU seconds")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=arguments)
        rounds = [measured(browser, page.as_uri()) for _ in range(given.rounds)]
        print(f"Chromium {browser.version}, load averages {os.getloadavg()}")
        browser.close()
    for name in rounds[0]:
        times = sorted(each[name] for each in rounds)
        print(f"{name:24} {statistics.median(times):6.3f} s ({times[0]:.3f} to {times[-1]:.3f})")


if __name__ == "__main__":
    main()
