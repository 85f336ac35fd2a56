"""What a run tells OpenRLHF's loggers of its team."""

from dataclasses import replace

import pytest
import turns

from mars_env.rollout.pipeline import UpdateBatch
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.openrlhf.rollouts.metrics import Verifications, evaluation_metrics, training_metrics
from mars_env.trainers.samples import turn_samples
from mars_env.types import Action, Completion, Grade, Group, Problem, Tree


def turn(id, agent, reward, group="p#0/0", versions=((3, 2),), **fields):
    completion = replace(turns.SAMPLED, completion_tokens=2, versions=versions)
    names = {"tree": "p#0", "group": group, "policy": "actor"}
    return turns.turn(id, reward, completion, agent=agent, **names, **fields)


def batch():
    versions = [((2, 2),), ((2, 1), (3, 1)), ((3, 2),)]
    solver = Group(
        "p#0/0",
        tuple(turn(str(i), "solver_0", r, versions=versions[i]) for i, r in enumerate((1.0, 0.0, None))),
    )
    verifier = Group(
        "p#0/0.0",
        tuple(
            turn(f"0.{i}", "verifier_0", reward, "p#0/0.0", info={"verdict": verdict})
            for i, (verdict, reward) in enumerate([("Wrong", 0.0), ("Wrong", 0.0), ("Correct", 1.0)])
        ),
    )
    return UpdateBatch(3, (solver, verifier), ages=(1, 2), dropped=4)


def test_rewards_groups_staleness_and_waiting():
    found, config = batch(), TrainConfig()
    told = training_metrics(found, turn_samples(found.groups, config), config, waited=1.0, between=4.0)
    assert told["team/solver/reward"] == 0.5
    assert told["team/solver/turns"] == 3
    assert told["team/solver/trained"] == 2
    assert told["team/verifier/reward"] == pytest.approx(1 / 3)
    assert told["team/groups/unknown"] == 1
    assert told["team/groups/kept"] == 5
    assert told["pipeline/age"] == 1.5
    assert told["pipeline/oldest"] == 2
    assert told["pipeline/dropped"] == 4
    assert told["pipeline/mixed"] == 1
    assert told["pipeline/idle_share"] == 0.25


def test_a_batch_without_groups_has_figures_too():
    told = training_metrics(UpdateBatch(0, ()), [], TrainConfig(), waited=0.0, between=0.0)
    assert told["pipeline/age"] == told["pipeline/idle_share"] == 0.0


def verdict(id, said, reward=0.0, **fields):
    return turn(id, "verifier_0", reward, "p#0/0.0", info={"verdict": said}, **fields)


def judged(*verdicts, grade, apart=False, **closing):
    """The figures of some verdicts on a solution, which may be trained before."""
    solver = Group("p#0/0", (turn("0", "solver_0", 0.0, grade=grade),))
    verifier = Group("p#0/0.0", verdicts)
    told = Verifications()
    if apart:
        assert told.metrics(UpdateBatch(0, (solver,), **closing)) == {}
        return told.metrics(UpdateBatch(1, (verifier,)))
    return told.metrics(UpdateBatch(0, (solver, verifier)))


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.3, None])
@pytest.mark.parametrize("apart", [False, True])
def test_precision_and_recall_are_of_the_errors_that_a_verifier_finds_whatever_rewards_it(reward, apart):
    verdicts = [
        verdict("0.0", "Wrong", reward),
        verdict("0.1", "Wrong", reward),
        verdict("0.2", "Correct", reward),
    ]
    assert judged(*verdicts, grade=Grade.wrong("5"), apart=apart) == {
        "team/verifier/precision": 1.0,
        "team/verifier/recall": pytest.approx(2 / 3),
    }
    assert judged(*verdicts, grade=Grade.correct(), apart=apart) == {"team/verifier/precision": 0.0}


def test_verdicts_that_cannot_be_judged_are_in_no_rate():
    cut = verdict("0.0", "Wrong")
    cut = replace(cut, action=Action("", (Completion("", finish_reason="context"),)))
    assert judged(cut, grade=Grade.wrong("5")) == {}
    assert judged(verdict("0.0", "Wrong"), grade=Grade.unknown("lost")) == {}
    strange = verdict("7.0", "Wrong")  # its solution was trained before a resume
    assert judged(strange, grade=Grade.wrong("5")) == {}
    gone = judged(verdict("0.0", "Wrong"), grade=Grade.wrong("5"), apart=True, trained_tree_ids=("p#0",))
    assert gone == {}  # nothing of a trained tree is kept


def test_an_evaluation_counts_right_answers_by_their_raw_grades():
    def tree(number, first, last, fault=""):
        problem = Problem(f"p{number}", "2 + 2?", "4")
        chain = (
            turn("0", "solver_0", None, grade=first),
            turn("0.0", "corrector_0", None, grade=last),
        )
        return Tree(f"p{number}#0", problem, chain, final="0.0", fault=fault)

    right, wrong, unknown = Grade.correct(), Grade.wrong("5"), Grade.unknown("the grader was lost")
    told = evaluation_metrics(
        [tree(0, wrong, right), tree(1, right, right), tree(2, wrong, wrong), tree(3, right, unknown)], "sums"
    )
    assert told["eval_solver_accuracy"] == 0.5
    assert told["eval_system_accuracy"] == told["eval_sums_pass1"] == pytest.approx(2 / 3)
    assert told["eval_unknown"] == 1
    assert told["eval_num_samples"] == 4
    assert told["eval_faults"] == 0
