"""Figures of searches on trees written by hand."""

from dataclasses import replace

import pytest
from small_runs import ABOUT
from turns import turn

from mars_env.evaluation.counts import count_trees
from mars_env.evaluation.metrics import estimates, measure
from mars_env.evaluation.report import build_report
from mars_env.types import Completion, Grade, Problem, Tree

GRADES = {"r": Grade.correct(), "w": Grade.wrong("no"), "?": Grade.unknown("the sandbox was lost")}


def tree(problem, nodes, final=None, **info):
    """Nodes are written as "id agent grade", e.g. ``"0.1 1 r"``."""
    turns = []
    for call, node in enumerate(nodes.split(", ")):
        id, agent, grade = node.split()
        known = {"agent": f"coder_{agent}", "tree": f"{problem}#0", "problem": problem}
        seen = {"grade": GRADES[grade], "info": {"call": call, "search_tokens": 2}, "search_score": 0.0}
        turns.append(turn(id, None, Completion("", completion_tokens=10, prompt_tokens=100), **known, **seen))
    return Tree(f"{problem}#0", Problem(problem, "?", None, "code"), tuple(turns), final, info=info)


TREES = [
    tree("a", "0 0 w, 0.0 1 r, 0.0.0 1 r", "0.0", choice_tokens=5),
    tree("b", "0 0 w, 1 0 r, 2 1 w, 3 0 ?", "0"),
    tree("c", "0 1 w, 0.0 0 ?", "0"),
]


def test_figures():
    metrics = measure(TREES)
    values = {name: e.value for name, e in estimates(metrics, ["a", "b", "c"]).items()}
    assert values["system_accuracy"] == pytest.approx(1 / 3)
    assert metrics["system_accuracy"].title == "Search Pass@1, chosen node"
    assert values["search_pass@n"] == 1.0 and metrics["search_pass@n"].pairs.keys() == {"a", "b"}
    assert values["node_accuracy"] == pytest.approx(3 / 7)
    assert values["nodes"] == 3 and values["calls"] == 3
    assert values["tokens"] == pytest.approx((30 + 11 + 40 + 8 + 20 + 4) / 3)
    assert values["judging_tokens"] == pytest.approx(23 / 3)
    assert values["share:coder_0"] == pytest.approx(5 / 9)
    assert values["right:coder_0"] == pytest.approx(1 / 3) and values["right:coder_1"] == pytest.approx(2 / 4)
    assert values["answers:coder_0"] == pytest.approx(1 / 3)
    assert not values.keys() & {"solver_accuracy", "gain", "solver_tokens", "rounds"}
    assert metrics["share:coder_0"].title == "Share of nodes, coder_0"


def test_counts_and_notes():
    unknown = tree("d", "0 0 w")
    lost = replace(unknown.turns[0], info={"call": 0, "search_unknown": "no verdict"})
    counted = count_trees([*TREES, Tree("d#0", unknown.problem, (lost,))])
    assert counted.unknown == {"the sandbox was lost": 2, "search score: no verdict": 1}
    assert counted.completion_tokens == 9 * 10 + 23 + 10
    report = build_report(TREES, ABOUT, notes=["The search saw X"])
    assert report.notes[0] == "The search saw X" and "Share of final answers, coder_1" in report.markdown()


def test_a_search_without_an_answer_is_not_counted_wrong():
    nothing = tree("e", "0 0 ?, 1 0 ?")
    assert "system_accuracy" not in measure([nothing]) and "search_pass@n" not in measure([nothing])
