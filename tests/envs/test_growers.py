import random
from collections import Counter
from types import SimpleNamespace

import pytest
from messages import raises
from turns import turn

from mars_env.envs import GroupedSettings, SolveVerifyCorrect
from mars_env.envs.growers import Grouped, Linear, chains, child_ids, levels
from mars_env.envs.solve_verify_correct import TRAINING
from mars_env.errors import ConfigError
from mars_env.types import Completion, Problem

PROBLEM = Problem("p", "What is 2 + 2?", "4")
RULES = SolveVerifyCorrect(TRAINING)


def after(expansion, index, text, reward):
    """The node of one turn of an expansion."""
    made = turn(
        *(expansion.turn_ids[index], reward, Completion(text)),
        agent=expansion.agent, group=expansion.group, tree="p#0",
    )  # fmt: skip
    return expansion.parent.child(made, RULES.apply(expansion.parent.state, made.action, made.grade))


def grouped(seed=0, **settings):
    return Grouped(RULES, PROBLEM, "p#0", seed, GroupedSettings(**settings))


def grow(grower, act, shuffle=None):
    """Play a grower to its end; `act(expansion, index) -> (text, reward)`. Returns its expansions."""
    expansions, waiting = [], []
    while True:
        waiting += grower.ask(100)
        if not waiting:
            return expansions
        if shuffle:
            shuffle.shuffle(waiting)
        expansion = waiting.pop(0)
        expansions.append(expansion)
        indices = range(len(expansion.turn_ids))
        grower.tell(expansion, [after(expansion, index, *act(expansion, index)) for index in indices])


def noisy(expansion, index):
    """Half of the outputs of reward 1; Verifiers say Wrong but for one in four."""
    verdict = "Correct" if index % 4 == 3 else "Wrong"
    return f"text {expansion.id} {index}\nCorrectness: {verdict}", float(index % 2)


def test_grouped_rollouts_have_the_papers_shape():
    expansions = grow(grouped(), noisy)
    assert Counter(e.agent for e in expansions) == {"solver_0": 1, "verifier_0": 4, "corrector_0": 4}
    assert sum(len(e.turn_ids) for e in expansions) == 72
    assert len({e.group for e in expansions}) == 9
    ids = [turn_id for e in expansions for turn_id in e.turn_ids]
    assert len(set(ids)) == 72


def test_adaptive_sampling_prefers_wrong_solutions_and_truthful_reports():
    expansions = grow(grouped(3), noisy)
    for expansion in expansions:
        if expansion.agent == "verifier_0":
            assert expansion.parent.turn.reward == 0.0
        if expansion.agent == "corrector_0":
            assert expansion.parent.turn.reward == 1.0
            assert expansion.parent.turn.text.endswith("Wrong")


def test_adaptive_sampling_fills_up_from_the_rest():
    expansions = grow(grouped(), lambda e, i: ("Correctness: Wrong", 1.0))
    assert len(expansions) == 9


@pytest.mark.parametrize(
    ("branches", "right", "chosen"), [(2, 1, {1}), (4, 3, {2}), (3, 4, {1, 2}), (5, 1, {1})]
)
def test_balanced_sampling_takes_as_many_of_each_as_there_are(branches, right, chosen):
    found = set()
    for seed in range(20):
        grower = grouped(seed, sampling="balanced", branches=branches)
        expansions = grow(grower, lambda e, i: ("Correctness: Wrong", float(i < right)))
        judged = [e.parent.turn.reward for e in expansions if e.parent.id.count(".") == 0 and e.parent.turn]
        assert len(judged) == branches
        found.add(sum(judged))
    assert found == chosen


@pytest.mark.parametrize("sampling", ["random", "balanced", "adaptive"])
def test_the_choice_does_not_depend_on_the_order_of_finishing(sampling):
    trees = set()
    for order in map(random.Random, range(5)):
        expansions = grow(grouped(7, sampling=sampling), noisy, order)
        trees.add(frozenset(expansion.id for expansion in expansions))
    assert len(trees) == 1


def test_each_stage_chooses_anew():
    settings = {"sampling": "random", "branches": 1}
    grown = [grow(grouped(seed, **settings), lambda e, i: ("Correctness: Wrong", 1.0)) for seed in range(9)]
    stages = [*zip(*(expansions[-1].parent.id.split(".") for expansions in grown), strict=True)]
    assert len({*stages}) == len(stages) == 4


def test_unknown_rewards_are_not_carried_on():

    def act(expansion, index):
        return "Correctness: Wrong", None if index < 6 else 1.0

    for expansion in grow(grouped(), act):
        assert expansion.parent.turn is None or expansion.parent.turn.reward == 1.0


def test_an_accepted_solution_is_not_carried_on():
    expansions = grow(grouped(), lambda e, i: ("Correctness: Correct", 1.0))
    assert [e.agent for e in expansions] == ["solver_0", "verifier_0", "verifier_0"]


def test_a_lost_group_does_not_hold_up_the_rest():
    grower = grouped()
    [solver] = grower.ask(10)
    grower.tell(solver, [after(solver, i, "?", 0.0) for i in range(8)])
    first, second = grower.ask(10)
    grower.tell(first, None)
    grower.tell(second, [after(second, i, "Correctness: Wrong", 1.0) for i in range(8)])
    assert [e.agent for e in grower.ask(10)] == ["corrector_0", "corrector_0"]


def test_linear_waits_to_be_told_and_names_the_answer():
    grower = Linear(RULES, PROBLEM, "p#0", 0)
    assert grower.final() is None
    [order] = grower.ask(5)
    assert grower.ask(5) == []
    grower.tell(order, [after(order, 0, "4", 1.0)])
    [order] = grower.ask(5)
    grower.tell(order, [after(order, 0, "Correctness: Correct", 1.0)])
    assert grower.ask(5) == [] and grower.final() == "0"
    grower._rules = SimpleNamespace(current_agent=lambda state: None, final=lambda state: 1)
    with raises(ConfigError):
        grower.final()


def test_turns_of_episodes_are_compared_only_where_they_answer_one_input():
    groups = [
        [e.group for e in grow(Linear(RULES, PROBLEM, f"p#{i}", 0), noisy, random.Random(0))] for i in (0, 1)
    ]
    assert groups[0][0] == groups[1][0] and len({*groups[0], *groups[1]}) == len(groups[0] + groups[1]) - 1


def test_a_lost_turn_ends_an_episode_without_an_answer():
    grower = Linear(RULES, PROBLEM, "p#0", 0)
    [order] = grower.ask(1)
    grower.tell(order, None)
    assert grower.ask(1) == [] and grower.final() is None


def test_chains_are_episodes_that_share_a_problem_and_nothing_else():
    expansions = grow(chains(4)(RULES, PROBLEM, "p#0", 0), noisy, random.Random(0))
    turns = Counter(turn.count(".") for e in expansions for turn in e.turn_ids)
    # Each Verifier is number 0 of its input, and `noisy` says "Wrong" there, so every chain goes to its end.
    assert turns == dict.fromkeys(range(5), 4)
    assert all(len(e.turn_ids) == 1 for e in expansions if e.parent.turn)
    groups = Counter(e.group for e in expansions for _ in e.turn_ids)
    agents = ["solver", "verifier", "corrector", "verifier", "corrector"]
    assert groups == {f"p#0/{agent}_0/{depth}": 4 for depth, agent in enumerate(agents)}


def test_chains_end_where_a_turn_was_lost():
    grower = chains(2)(RULES, PROBLEM, "p#0", 0)
    [order] = grower.ask(9)
    grower.tell(order, [after(order, i, "4", None) for i in range(2)])
    first, second = grower.ask(9)
    assert (first.turn_ids, second.turn_ids, first.group) == (("0.0",), ("1.0",), second.group)
    grower.tell(first, None)
    assert grower.ask(9) == []
    assert grower.final() is None


@pytest.mark.parametrize("make", [lambda: chains(1), lambda: levels(()), lambda: levels((2, 0))])
def test_a_group_needs_turns_to_compare(make):
    with raises(ConfigError):
        make()


def test_levels_have_their_sizes_and_the_last_one_goes_on():
    expansions = grow(levels((1, 3, 2))(RULES, PROBLEM, "p#0", 0), lambda e, i: ("Correctness: Wrong", 1.0))
    sizes = {(len(e.parent.path), len(e.turn_ids)) for e in expansions}
    assert sizes == {(0, 1), (1, 3), (2, 2), (3, 2), (4, 2)}
    assert all(e.group == f"p#0/{e.id}" for e in expansions)
    assert child_ids(expansions[1].parent, 3, 2) == ("0.3", "0.4")
