"""The metrics of a small run, counted by hand."""

import logging
from dataclasses import replace

import pytest
from small_runs import ABOUT
from turns import turn

from mars_env.errors import ConfigError
from mars_env.evaluation import build_report, compare_trees, register_metric, remove_metric
from mars_env.evaluation.counts import count_trees
from mars_env.evaluation.metrics import estimates, measure
from mars_env.evaluation.trees import judgements, rounds, system_right
from mars_env.types import Action, Completion, Grade, Problem, Tree, Turn


def value(metrics, name):
    pairs = metrics[name].pairs.values()
    return sum(x for x, _ in pairs) / sum(w for _, w in pairs)


def test_accuracies_and_gain(run):
    metrics = measure(run)
    assert metrics["solver_accuracy"].pairs == {"p1": (0.5, 1), "p2": (0, 1), "p3": (1, 1)}
    assert metrics["system_accuracy"].pairs == {"p1": (1, 1), "p2": (0.5, 1), "p3": (0.5, 1)}
    assert value(metrics, "gain") == pytest.approx(1 / 6)
    assert metrics["gain"].pairs["p3"] == (-0.5, 1)


def test_verifier_precision_and_recall(run):
    # (solution, says): p1 (-, w) (+, c) (+, c); p2 (-, c) (-, m) (-, w) (+, c); p3 (+, w) (-, c) (+, c).
    metrics = measure(run)
    assert metrics["verifier_precision"].pairs == {"p1": (1, 1), "p2": (2, 2), "p3": (0, 1)}
    assert metrics["verifier_recall"].pairs == {"p1": (1, 1), "p2": (2, 3), "p3": (0, 1)}  # of the wrong
    assert value(metrics, "acceptance_precision") == 4 / 6
    assert value(metrics, "acceptance_recall") == 4 / 5
    assert value(metrics, "verifier_accuracy") == 7 / 10
    assert metrics["malformed"].pairs == {"p1": (0, 3), "p2": (1, 4), "p3": (0, 3)}


def test_corrector_fix_and_break_rates(run):
    metrics = measure(run)
    assert metrics["fix_rate"].pairs == {"p1": (1, 1), "p2": (1, 2)}
    assert metrics["break_rate"].pairs == {"p3": (1, 1)}


def test_unknown_grades_are_left_out_and_counted(episode):
    trees = [episode("p", 0, "S? Vw C+ Vc"), episode("p", 1, "S- Vw C? Vc"), episode("p", 2, "S+ Vc")]
    metrics = measure(trees)
    assert metrics["solver_accuracy"].pairs == {"p": (0.5, 1)}  # of the second and the third
    assert metrics["system_accuracy"].pairs == {"p": (1, 1)}  # of the first and the third
    assert metrics["gain"].pairs == {"p": (0, 1)}  # of the third alone
    assert "fix_rate" not in metrics  # one input and one output are unknown
    assert value(metrics, "verifier_accuracy") == 1  # (+, c), (-, w), (+, c)
    assert count_trees(trees).unknown == {"the worker was lost": 2}


def test_faults_are_left_out_of_the_system_and_counted(episode):
    trees = [episode("p", 0, "S+", fault="ModelError: gone"), episode("p", 1, "S- Vw C+ Vc")]
    metrics = measure(trees)
    assert metrics["system_accuracy"].pairs == {"p": (1, 1)}
    assert metrics["solver_accuracy"].pairs == {"p": (0.5, 1)}  # its attempt was judged
    assert metrics["tokens"].pairs == {"p": (40, 1)}
    assert metrics["reward:solver"].pairs == {"p": (0.5, 1)}  # its reward is known, too
    assert count_trees(trees).faults == {"ModelError: gone": 1}


def test_every_known_grade_and_reward_of_a_role_counts_whatever_became_of_its_tree(episode):
    trees = [episode("p", 0, "S- Vw C- Vw C-", fault="ModelError: gone"), episode("p", 1, "S- Vw C+ Vc")]
    metrics = measure(trees)
    for name in ("fix_rate", "accuracy:corrector", "reward:corrector"):
        assert value(metrics, name) == pytest.approx(1 / 3)


def test_an_episode_without_an_answer_is_wrong_a_training_rollout_has_no_system(episode):
    tree = replace(episode("p", 0, "S+ Vw"), final=None)
    assert system_right(tree) is False
    second_root = replace(tree.turns[0], id="1")
    assert system_right(replace(tree, turns=(*tree.turns, second_root))) is None


def test_pass_and_majority_at_k(episode):
    trees = [
        episode("p", i, script, answers=[answer])
        for i, (script, answer) in enumerate([("S+", "7"), ("S+", "7"), ("S-", "3"), ("S-", "4")])
    ]
    metrics = measure(trees, answer_of=lambda turn: turn.text)
    assert metrics["solver_pass@2"].pairs["p"][0] == pytest.approx(5 / 6)
    assert metrics["solver_maj@4"].pairs["p"][0] == 1.0
    # Of 6 pairs: {7, 7} wins; four of {7, x} tie; {3, 4} loses.
    assert metrics["solver_maj@2"].pairs["p"][0] == pytest.approx((1 + 4 / 2) / 6)
    assert metrics["system_pass@4"].pairs["p"] == (1.0, 1.0)
    assert "solver_maj@2" not in measure(trees)


def test_a_tree_twice_and_two_problems_of_one_id_are_refused(run, episode):
    with pytest.raises(ConfigError):
        measure([*run, run[0]])
    other = episode("p1", 9, "S+")
    with pytest.raises(ConfigError):
        measure([*run, replace(other, problem=replace(other.problem, statement="Another."))])


@pytest.mark.parametrize(
    ("verdict", "accepts"), [("Correct", True), ("Wrong", False), ("OK", None), (None, None), ([], None)]
)
def test_only_a_verdict_in_the_librarys_words_is_counted(episode, verdict, accepts):
    tree = episode("p", 0, "S- Vc")
    report = replace(tree.turns[1], info={"verdict": verdict})
    judged = [accepted for _, accepted, _ in judgements(replace(tree, turns=(tree.turns[0], report)))]
    assert report.accepts is accepts and judged == [accepts] * (accepts is not None)


def grouped():
    """Two first attempts; the wrong one is judged twice, and one report leads to two corrections."""

    def turn(id, agent, grade=None, **info):
        parent = id.rpartition(".")[0] or None
        return Turn("p#0", id, parent, "", agent, "", "p", Action(id), grade, info=info)

    right, wrong = Grade.correct(), Grade.wrong("no")
    turns = (
        turn("0", "solver_0", wrong),
        turn("0.0", "verifier_0", verdict="Wrong", malformed=False),
        turn("0.0.0", "corrector_0", right),
        turn("0.0.1", "corrector_0", wrong),
        turn("0.0.1.0", "verifier_0", verdict="Correct", malformed=False),
        turn("0.1", "verifier_0", verdict="Correct", malformed=False),
        turn("1", "solver_0", right),
    )
    return Tree("p#0", Problem("p", "?", "4"), turns)


def test_grouped_rollouts():
    metrics = measure([grouped()])
    assert metrics["solver_accuracy"].pairs == {"p": (0.5, 1)}
    assert metrics["solver_pass@2"].pairs == {"p": (1, 1)}
    assert "system_accuracy" not in metrics and "gain" not in metrics
    assert metrics["fix_rate"].pairs == {"p": (1, 2)}
    assert metrics["verifier_recall"].pairs == {"p": (1, 3)}
    tree = grouped()
    assert rounds(tree) == rounds(replace(tree, turns=tree.turns[::-1])) == 2  # the longest path


@pytest.fixture(autouse=True)
def _forgotten():
    yield
    for name in ("shortness", "debt", "fussy"):
        remove_metric(name)


def test_a_metric_stands_in_reports_and_comparisons(run):
    register_metric("shortness", lambda tree: len(tree.turns) <= 2, title="Short episodes", scale="rate")
    register_metric("debt", lambda tree: -float(len(tree.turns)))
    report = build_report(run, ABOUT)
    assert report.metrics["shortness"].estimate.value == pytest.approx(4 / 6 - 1 / 6)
    assert "Short episodes" in str(report) and report.metrics["shortness"].estimate.low > 0
    debt = report.metrics["debt"].estimate
    assert debt.value == pytest.approx(-(4 + 2 + 2 + 6 + 4 + 2) / 6) and debt.low < debt.value < debt.high < 0
    assert "-3.333" in str(report)
    assert compare_trees(run, run).rows["debt"].difference.value == 0


def test_none_says_nothing_and_a_fault_is_logged(run, caplog):
    def fussy(tree):
        if tree.id == "p1#0":
            raise KeyError("no \x1b[2J field")
        return None if tree.id == "p1#1" else float("nan") if tree.id == "p2#0" else 2.0

    register_metric("fussy", fussy, scale="amount")
    with caplog.at_level(logging.WARNING):
        estimate = build_report(run, ABOUT).metrics["fussy"].estimate
    assert (estimate.value, estimate.problems) == (2.0, 2)
    assert len(caplog.records) == 2 and "\x1b" not in caplog.text and "p1#0" in caplog.text


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
