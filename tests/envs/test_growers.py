import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turns import turn

from mars_env.envs import GroupedSettings, solve_verify_correct
from mars_env.envs.growers import Grouped, chains
from mars_env.types import Completion, Problem

PROBLEM = Problem("p", "What is 2 + 2?", "4")
RULES = solve_verify_correct(schedule="training")


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


@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_what_continues_has_a_known_reward_and_is_preferred(rng, branches):
    """Verifiers get wrong solutions, Correctors truthful reports of an error; lost groups delay no other."""
    grower, outputs = grouped(branches=branches), {"": None}
    while stage := grower.ask(100):
        chosen = {expansion.parent.id for expansion in stage}
        rewards = {id: reward for id, reward in outputs.items() if reward is not None}
        candidates = rewards or outputs
        assert chosen <= candidates.keys() and len(chosen) == min(branches, len(candidates))
        preferred = {"verifier_0": 0.0, "corrector_0": 1.0}.get(stage[0].agent)
        if rewards and any(rewards[id] != preferred for id in chosen):
            assert all(rewards[id] != preferred for id in rewards.keys() - chosen)
        outputs = {}
        for expansion in stage:
            texts = [f"Correctness: {rng.choice(['Correct', 'Wrong'])}" for _ in expansion.turn_ids]
            nodes = [after(expansion, i, text, rng.choice([None, 0.0, 1.0])) for i, text in enumerate(texts)]
            is_lost = rng.random() < 0.2
            grower.tell(expansion, None if is_lost else nodes)
            if not is_lost:
                outputs |= {n.id: n.turn.reward for n in nodes if RULES.current_agent(n.state)}
    assert not outputs


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
