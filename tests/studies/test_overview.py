"""The table that opens the results page is made of the ledgers."""

import subprocess
import sys
from pathlib import Path

from studies import overview

ROOT = Path(__file__).parents[2]


def test_the_page_opens_with_what_the_ledgers_say():
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    between = text.partition("<!-- begin overview -->\n")[2].partition("<!-- end overview -->")[0]
    assert between == overview.overview()
    assert text.index("| claim |") == text.index("\n| ") + 1  # no other table comes before it


def test_every_claim_is_judged_once_its_arms_are_played():
    unfinished = {study.task: study for study in overview.STUDIES if "openrlhf.md" in study.task}
    for study in overview.STUDIES:
        rows = study.rows()
        if not rows:
            continue
        played = {row.arm for row in rows}
        judged = [found.claim for found in overview.judge_all(rows, study.claims)]
        assert judged == [c for c in study.claims if {c.arm, c.other_arm} <= played], study.task
        if study.task in unfinished:  # not all arms of its plan are played yet
            known = set(overview.openrlhf_study.WAYS)
            assert all({c.arm, c.other_arm} <= known for c in study.claims)
        else:
            assert judged == list(study.claims), study.task


def test_the_command_writes_into_the_page(tmp_path, monkeypatch):
    page = tmp_path / "results.md"
    page.write_text("# Results\n\n<!-- begin overview -->\nan older table\n<!-- end overview -->\nrest\n")
    monkeypatch.setattr("PAGE", page)
    overview.main()
    written = page.read_text()
    assert "an older table" not in written
    assert written.endswith("<!-- end overview -->\nrest\n")
    assert "| holds |" in written


def test_it_runs_as_a_script():
    done = subprocess.run(
        [sys.executable, "-c", "from studies import overview; print(overview.overview())"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "RL adds to the System" in done.stdout


def test_make_results_writes_the_tables_of_every_study():
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nresults:")[2].partition("\n\n")[0]
    studies = [path.parent.name for path in sorted((ROOT / "studies").glob("*/study.py"))]
    assert studies and [name for name in studies if f"-m studies.{name} " not in recipe] == []
