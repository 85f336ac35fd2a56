"""The comparison of ways to credit a team: equal tokens, collapsed roles, its page and figures by hand."""

import pytest

from studies.common.ledger import LedgerRow
from studies.credit import figures
from studies.credit.games import GAMES
from studies.credit.study import ARMS, BASES, RULES, STUDY, collapsed_roles, effects, groups_of, primary_table
from studies.credit.training import train_within


def row(arm, seed, system, rewards=(0.0, 1.0, 0.5, 1.0)):
    detail = {"rewards": {"solver": list(rewards), "verifier": [None] * 4}, "sampled": [10, 20, 30, 40]}
    measured = {"solver_accuracy": 0.1, "system_accuracy": system}
    return LedgerRow(arm=arm, seed=seed, settings="1", seconds=3600.0, figures=measured, detail=detail)


ROWS = [
    row(f"arithmetic, {rule}", seed, 0.5 + gain + 0.01 * seed * (rule == "c3"))
    for rule, gain in (("marsrl", 0.0), ("team", -0.1), ("c3", 0.2))
    for seed in range(3)
]


def test_every_arm_has_its_papers_rule_to_be_compared_with():
    assert {f"{game}, {BASES[game]}" for game in GAMES} < set(ARMS)
    compared = {claim.arm for claim in STUDY.claims}
    assert compared == {name for name, arm in ARMS.items() if arm.changes and arm.rule != BASES[arm.game]}
    assert set(RULES) == set(GAMES)


def test_the_primary_comparisons_are_those_that_have_rows_and_are_corrected():
    found = effects(ROWS)["arithmetic"]
    assert {rule: each.difference.mean for rule, each in found.items()} == pytest.approx(
        {"team": -0.1, "c3": 0.21}
    )
    lines = primary_table(ROWS).splitlines()
    assert len(lines) == 4 and lines[3].endswith("| above |")
    assert lines[2].endswith("| 1.000 | 1.000 | not shown |")  # its differences do not vary


def test_a_learning_curve_has_the_mean_reward_of_each_part_of_the_tokens():
    curve = figures.learning_curve(ROWS[:3], "solver")
    assert [(tokens, estimate.mean) for tokens, estimate in curve] == [
        (pytest.approx(0.01), 0.0),
        (pytest.approx(0.022), 1.0),
        (pytest.approx(0.03), 0.5),
        (pytest.approx(0.038), 1.0),
    ]
    assert figures.learning_curve(ROWS[:3], "verifier") == []


def test_figures_are_drawn_of_whatever_rows_there_are():
    made = STUDY.plots(ROWS)
    assert set(made) == {"curves.svg", "rules.svg"} and all(b"<svg" in plot for plot in made.values())
    assert made == STUDY.plots(ROWS)
    assert list(groups_of(ROWS)["arithmetic"]) == ["marsrl", "team", "c3"]
    assert STUDY.plots([]) == {}


def test_roles_that_stop_to_do_their_part_have_collapsed():
    able = {"verifier_recall": 0.5, "acceptance_recall": 0.5, "fix_rate": 0.1}
    assert collapsed_roles(able) == {"verifier_collapsed": 0.0, "corrector_collapsed": 0.0}
    assert collapsed_roles(able | {"acceptance_recall": 0.01})["verifier_collapsed"] == 1.0
    assert collapsed_roles({"distinct": 0.01}) == {"coder_collapsed": 1.0}


async def test_the_update_that_reaches_the_tokens_is_the_last(tmp_path):
    game = GAMES["arithmetic"]
    model = game.start(0, STUDY.quick, tmp_path)
    training = await train_within(game, model, {"credit": "c3"}, seed=0, tokens=3000)
    assert len(training.history) == len(training.sampled)
    assert training.sampled[-1] >= 3000 and all(sampled < 3000 for sampled in training.sampled[:-1])
