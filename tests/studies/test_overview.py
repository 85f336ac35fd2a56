"""All studies: each is in the overview, and its quick seed runs."""

import sys
from pathlib import Path

import pytest

from studies import overview
from studies.marsrl_refining.study import LONGER
from studies.overview import STUDIES

ROOT = Path(__file__).parents[2]


def test_every_folder_with_a_study_is_in_the_overview():
    assert sorted(overview.NAMES) == sorted(path.parent.name for path in ROOT.glob("studies/*/ledger.jsonl"))
    assert [study.name for study in STUDIES] == list(overview.NAMES)


SOME = {  # the others differ in numbers
    "credit": ("arithmetic, balance", "sums, majority", "search, tree-shaped"),
    "marsrl_robustness": ("poor, shared chains", "poor, 4x2, kl", "good, all"),
    "mars2": ("heterogeneous",),
    "mars2_choice": ("heterogeneous",),
    "marsrl_refining": ("trained", LONGER),
    "echo": ("one process",),  # the others need Ray: tests/engines
    "ruscarl": ("no scaffold", "sigmoid (RuscaRL)", "sigmoid, scaffolded over scaffolded"),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "study", [study for study in STUDIES if study.name != "openrlhf"], ids=lambda study: study.name
)
def test_the_quick_seed_runs_and_keeps_nothing(study, monkeypatch, capsys):
    if study.name == "echo":
        pytest.importorskip("ray", reason="without Ray; tests/engines has it")
    before, arms = study.ledger.path.read_bytes(), SOME.get(study.name, ())
    monkeypatch.setattr(sys, "argv", [study.name, "--quick", *(f"--arm={arm}" for arm in arms)])
    with pytest.raises(SystemExit) as ended:
        study.main()
    assert not ended.value.code
    shown = {line.partition(", seed")[0] for line in capsys.readouterr().out.splitlines() if ", seed" in line}
    assert shown <= set(study.arms) and (shown == set(arms or study.arms) or study.name == "promptcot")
    assert study.ledger.path.read_bytes() == before
