"""All studies: each is in the overview, and its quick seed runs."""

import sys

import pytest

from studies.marsrl_refining.study import LONGER
from studies.overview import STUDIES

SOME = {  # the others differ in numbers
    "credit": ("arithmetic, balance", "sums, majority", "search, tree-shaped"),
    "marsrl": ("solver", "separate all", "none, check forced", "before habits", "all, continued"),
    "marsrl_robustness": ("poor, 4x2, kl", "good, all"),
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
