"""The how-to page on OpenRLHF: its dry run, from an empty folder."""

from pathlib import Path

from journeys import walk

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "train-with-openrlhf.md"


def test_the_dry_run_of_the_page_makes_a_plan_that_fits(tmp_path):
    assert walk(PAGE, tmp_path)
    assert "GiB" in (tmp_path / "plan.txt").read_text(encoding="utf-8")
