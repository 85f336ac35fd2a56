"""The metrics of a small run, counted by hand."""

from dataclasses import replace

import pytest

from mars_env.errors import ConfigError
from mars_env.evaluation.counts import count_trees
from mars_env.evaluation.metrics import measure
from mars_env.evaluation.trees import judgements, rounds, system_right
from mars_env.types import Action, Grade, Problem, Tree, Turn


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
    assert metrics["verifier_precision"].pairs == {
        "p1": (1, 1),
        "p2": (2, 2),
        "p3": (0, 1),
    }
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
