"""The ledger of problems: what was drawn and not trained is not lost."""

import json

from messages import raises

from mars_env.errors import StoreError
from mars_env.problems import ProblemSet
from mars_env.rollout.pipeline import UpdateBatch
from mars_env.trainers.openrlhf.rollouts.problems import DrawnProblems
from mars_env.types import Group, Problem

PROBLEMS = ProblemSet("sums", [Problem(f"p{i}", f"{i} + {i}?", str(2 * i)) for i in range(5)])


def drawn(passes=2):
    return DrawnProblems(PROBLEMS, passes, seed=0)


def trains(groups=(), trees=()):
    return UpdateBatch(0, tuple(Group(name, ()) for name in groups), trained_tree_ids=tuple(trees))


def ids(steps):
    return [[job.tree_id for job in step] for step in steps]


def test_each_pass_plays_each_problem_once_under_a_name_of_its_own():
    steps = ids(drawn().steps(4))
    assert list(map(len, steps)) == [4, 4, 2]
    assert [tree[:2] for tree in sum(steps, [])[:5]] != [tree[:2] for tree in sum(steps, [])[5:]]
    assert sorted(tree for step in steps for tree in step) == sorted(
        f"p{i}#{sample}" for i in range(5) for sample in range(2)
    )


def test_a_resumed_run_begins_again_what_was_not_trained_and_draws_the_rest():
    whole = sorted(tree for step in ids(drawn().steps(3)) for tree in step)
    first = drawn()
    steps = first.steps(3)
    begun = ids([next(steps), next(steps)])
    first.note(trains([f"{tree}/0" for tree in begun[0]], begun[0][:2]))
    state = json.loads(json.dumps(first.state_dict()))
    second = drawn()
    second.load_state_dict(state)
    assert second.updates == 1
    assert second.trained == {f"{begun[0][2]}/0"}  # of the only tree that is not wholly trained
    again = ids(second.steps(3))
    assert again == [[begun[0][2], *begun[1][:2]], [begun[1][2]], *ids(steps)]
    assert sorted([*begun[0][:2], *(tree for step in again for tree in step)]) == whole


def test_a_state_at_the_end_of_a_pass_goes_on_with_the_next():
    first = drawn()
    steps = first.steps(5)
    done = [job.tree_id for job in next(steps)]
    first.note(trains(trees=done))
    second = drawn()
    second.load_state_dict(first.state_dict())
    assert [tree.endswith("#1") for step in ids(second.steps(5)) for tree in step] == [True] * 5


def test_a_checkpoint_of_other_problems_is_refused():
    first = drawn()
    next(first.steps(2))
    other = DrawnProblems(PROBLEMS[3:], 1, seed=0)
    with raises(StoreError):
        other.load_state_dict(first.state_dict())
