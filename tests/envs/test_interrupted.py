"""What becomes of a turn that the set-up cuts off: nothing is known of it, and nothing is made of it."""

import pytest

from mars_env.agents.roles import Corrector, Solver, Verifier
from mars_env.envs import Game, GroupedSettings, grouped, solve_verify_correct
from mars_env.envs.search_graders import VerifierGrader
from mars_env.envs.tree_search import SearchGrower, tree_search
from mars_env.evaluation.counts import count_trees
from mars_env.evaluation.metrics import measure
from mars_env.evaluation.trees import system_right
from mars_env.grading import grader_for
from mars_env.rollout import Job, collect
from mars_env.rollout.engine import play
from mars_env.rollout.groups import groups_of
from mars_env.rollout.records import turn_from_row, turn_to_row
from mars_env.rollout.rewarding import regrade
from mars_env.trainers.metrics import role_metrics
from mars_env.types import Completion, Problem, Verdict

PROBLEM = Problem("sum", "What is 2 + 2?", "4")
REASONS = ["context", "content_filter"]


class Model:
    """Answers in turn; what it says with a finish reason of its own."""

    name = "model"

    def __init__(self, *answers):
        self.answers = answers
        self.asked = 0

    async def complete(self, prompt, n, sampling):
        told = [self.answers[(self.asked + i) % len(self.answers)] for i in range(n)]
        self.asked += n
        return [
            Completion(text, reason, (1, 2), (3,) * 4, (-0.5,) * 4, 1.0, ((0, 4),), 2, 4)
            for text, reason in told
        ]


def team(
    solver=("\\boxed{4}", "stop"), verifier=("Correctness: Wrong", "stop"), corrector=("\\boxed{4}", "stop")
):
    roles = {"solver_0": Solver, "verifier_0": Verifier, "corrector_0": Corrector}
    answers = zip(roles, (solver, verifier, corrector), strict=True)
    return {name: roles[name](Model(*(a if isinstance(a, list) else [a]))) for name, a in answers}


def game(**settings):
    return Game(solve_verify_correct(schedule="training"), grader_for("math"), **settings)


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("text", ["\\boxed{5}", "\\boxed{4}", ""])
async def test_a_solution_that_was_cut_off_is_unknown_whatever_it_holds(reason, text):
    [tree] = await collect(game(), team(solver=(text, reason)), [Job(PROBLEM)], seed=0)
    solver, verifier, corrector, *_ = tree.turns
    assert solver.grade.verdict is Verdict.UNKNOWN
    assert ("context" in solver.grade.reason) == (reason == "context")
    assert (solver.reward, verifier.reward) == (None, None)  # nobody knows what the Verifier should have said
    assert corrector.reward == 1.0
    assert turn_from_row(turn_to_row(solver)) == solver  # what is stored says so
    again = (await regrade(tree, game())).turns
    assert [(t.reward, t.grade and t.grade.verdict) for t in again] == [
        (t.reward, t.grade and t.grade.verdict) for t in tree.turns
    ]


async def test_a_report_that_was_cut_off_has_no_reward_and_is_in_no_rate():
    [tree] = await collect(game(), team(verifier=("Findings", "context")), [Job(PROBLEM)], seed=0)
    verifier = tree.turns[1]
    assert verifier.role == "verifier" and verifier.reward is None
    metrics, counts = measure([tree]), count_trees([tree])
    assert not metrics.keys() & {"malformed", "verifier_recall", "verifier_accuracy"}
    assert (counts.malformed, counts.false_rejects) == (0, 0)
    assert counts.interrupted == {"verifier": 2}
    assert counts.truncated == {}


async def test_cut_turns_leave_their_groups_and_are_counted_by_role():
    answers = [("\\boxed{4}", "stop"), ("\\boxed{5}", "stop"), ("\\boxed{4}", "context"), ("5", "context")]
    growing = game(grower=grouped(GroupedSettings(group=4, branches=1)))
    tree = await play(growing, team(solver=answers), Job(PROBLEM), seed=0)
    groups = groups_of([tree])
    solver = next(group for group in groups if group.turns[0].role == "solver")
    assert [turn.reward for turn in solver.turns] == [1.0, 0.0, None, None]
    carried_on = {turn.parent_id for turn in tree.turns if turn.role == "verifier"}
    assert not carried_on & {"2", "3"}  # a known solution is preferred
    assert role_metrics(groups, ())["solver"]["interrupted"] == 2.0
    assert role_metrics(groups, ())["solver"]["truncated"] == 0.0
    assert "interrupted" not in role_metrics(groups, ())["verifier"]


async def test_a_search_is_told_that_a_cut_node_is_lost_and_an_empty_one_is_not_wrong():
    rules = tree_search(schedule="training", agents=1, nodes=4, wave=1)
    searching = Game(
        rules, grader_for("math"), grower=SearchGrower, visibility=rules.settings.visibility("math")
    )
    some = {"solver_0": Solver(Model(("\\boxed{5}", "context"), ("\\boxed{4}", "stop")))}
    [tree] = await collect(searching, some, [Job(PROBLEM)], seed=0)
    cut = [turn for turn in tree.turns if turn.action.interrupted]
    assert len(cut) == 2 and all(turn.search_score is None and turn.reward is None for turn in cut)
    assert not {turn.parent_id for turn in tree.turns} & {turn.id for turn in cut}  # nothing grows on it
    assert system_right(tree) is True
    none = {"solver_0": Solver(Model(("\\boxed{5}", "context")))}
    [empty] = await collect(searching, none, [Job(PROBLEM)], seed=0)
    assert (empty.final, empty.fault) == (None, "")
    assert system_right(empty) is None


async def test_a_verifier_of_a_search_that_was_cut_off_gives_no_score():
    grade = await VerifierGrader(Verifier(Model(("Findings", "context"))), 3).grade(PROBLEM, "5")
    assert grade.verdict is Verdict.UNKNOWN and grade.tokens == 12
    said = Model(("Findings", "context"), ("Correctness: Correct", "stop"), ("Correctness: Wrong", "stop"))
    grade = await VerifierGrader(Verifier(said), 3).grade(PROBLEM, "5")
    assert grade.score == 0.5  # of those that were whole
