"""All studies: their ledgers, plans and pages belong together, their quick runs run, and so the overview."""

import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from studies import overview
from studies.marsrl_refining.study import LONGER
from studies.overview import STUDIES

ROOT = Path(__file__).parents[2]
EACH = pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)


def part(folder, name="ledger"):
    text = (ROOT / "studies" / folder / "README.md").read_text(encoding="utf-8")
    return text.partition(f"<!-- begin {name} -->\n")[2].partition(f"<!-- end {name} -->")[0]


def test_every_folder_with_a_study_is_in_the_overview():
    assert sorted(overview.NAMES) == sorted(path.parent.name for path in ROOT.glob("studies/*/ledger.jsonl"))
    assert [study.name for study in STUDIES] == list(overview.NAMES)


@EACH
def test_the_page_shows_what_the_ledger_holds(study):
    assert part(study.name) == study.page(study.rows()).rstrip() + "\n"


@EACH
def test_plots_are_made_of_the_ledger(study, tmp_path):
    folder, original = tmp_path / study.name, ROOT / "studies" / study.name
    folder.mkdir()
    shutil.copy(original / "ledger.jsonl", folder)
    (folder / "README.md").write_text("<!-- begin ledger -->\n<!-- end ledger -->\n")
    replace(study, root=tmp_path).write_page()
    for made in folder.glob("*.svg"):
        assert made.read_bytes() == (original / made.name).read_bytes()


@EACH
def test_the_ledger_holds_rows_of_the_plan_from_committed_code(study):
    rows = study.rows()
    assert rows and {row.arm for row in rows} <= set(study.arms)
    assert not any((row.commit or "").endswith("-dirty") for row in rows)
    assert study.plan is None or study.plan.exists()
    assert sorted((row.arm, row.seed) for row in rows) == sorted(study.plan_rows())


@EACH
def test_every_claim_is_judged(study):
    judged = [found.claim for found in overview.judge_all(study.widen(study.rows()), study.claims)]
    assert judged == list(study.claims)


@EACH
def test_a_study_can_be_sent_to_other_processes(study):
    assert pickle.loads(pickle.dumps(study)).name == study.name


SOME = {  # the others differ in numbers
    "marsrl_robustness": ("poor, shared chains", "poor, 4x2, kl", "good, all"),
    "mars2": ("heterogeneous",),
    "mars2_choice": ("heterogeneous",),
    "marsrl_refining": ("trained", LONGER),
    "echo": ("S = 2",),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "study", [study for study in STUDIES if study.name != "openrlhf"], ids=lambda study: study.name
)
def test_the_quick_seed_runs_and_keeps_nothing(study, monkeypatch, capsys):
    before, arms = study.ledger.path.read_bytes(), SOME.get(study.name, ())
    monkeypatch.setattr(sys, "argv", [study.name, "--quick", *(f"--arm={arm}" for arm in arms)])
    with pytest.raises(SystemExit) as ended:
        study.main()
    assert not ended.value.code
    shown = {line.partition(", seed")[0] for line in capsys.readouterr().out.splitlines() if ", seed" in line}
    assert shown <= set(study.arms) and (shown == set(arms or study.arms) or study.name == "promptcot")
    assert study.ledger.path.read_bytes() == before


def test_a_folder_is_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "studies.sums", "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0 and "--quick" in done.stdout, done.stderr


def test_the_page_opens_with_what_the_ledgers_say():
    text = (ROOT / "studies" / "README.md").read_text(encoding="utf-8")
    assert part("", "overview") == overview.overview()
    assert text.index("| claim |") == text.index("\n| ") + 1  # no other table comes before it


def test_the_command_writes_into_the_page(tmp_path, monkeypatch):
    page = tmp_path / "results.md"
    page.write_text("# Results\n\n<!-- begin overview -->\nan older table\n<!-- end overview -->\nrest\n")
    monkeypatch.setattr(overview, "PAGE", page)
    overview.main()
    written = page.read_text()
    assert "an older table" not in written
    assert written.endswith("<!-- end overview -->\nrest\n")
    assert "| holds |" in written
