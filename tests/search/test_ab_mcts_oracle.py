"""TreeQuest's ABMCTSA is the oracle: the same posteriors, and the same frequencies of choice."""

import itertools

import numpy as np
import pytest
from made_by_make import needed
from scipy import stats

from mars_env.search import ABMCTSA, ABMCTSASettings, Ask

treequest = needed("treequest", "treequest")  # the oracle of these tests

CHOICES = {"thompson": "multiarm_bandit_thompson", "ucb": "multiarm_bandit_ucb", "stack": "stack"}
FORMS = list(itertools.product(("beta", "gaussian"), CHOICES))

#: (parent, agent, score) by id
TREES = {
    "two agents": [(None, 0, 0.5), (None, 1, 0.0), (0, 1, 1.0), (0, 0, 0.25), (3, 1, 0.5), (1, 0, 0.75)],
    "all alike": [(None, 0, 0.0), (None, 1, 0.0), (None, 0, 0.0), (0, 0, 0.0), (0, 1, 0.0), (3, 1, 0.0)],
    "a bright line": [(None, 0, 0.2), (0, 0, 0.6), (1, 1, 1.0), (1, 0, 0.9), (None, 1, 0.1), (2, 0, 1.0)],
    "one agent": [(None, 0, 0.5), (0, 0, 0.25), (0, 0, 1.0), (None, 0, 0.0), (2, 0, 0.75)],
    "nothing yet": [],
}


def names(tree):
    return ("a", "b")[: 1 if all(agent == 0 for _, agent, _ in tree) and tree else 2]


def ours(tree, prior, choice):
    algorithm = ABMCTSA(names(tree), ABMCTSASettings(prior={"kind": prior}, choice=choice))
    for id, (parent, agent, score) in enumerate(tree):
        ask = Ask(id, parent, names(tree)[agent])
        algorithm.add(ask)
        algorithm.score(ask, score)
    return algorithm


def theirs(tree, prior, choice):
    """TreeQuest's state after the same nodes, each told as the result of a trial of its own."""
    algorithm = treequest.ABMCTSA(dist_type=prior, model_selection_strategy=CHOICES[choice])
    state, _ = algorithm.ask_batch(algorithm.init_tree(), 0, list(names(tree)))
    for id, (parent, agent, score) in enumerate(tree):
        node = state.tree.get_node(-1 if parent is None else parent)
        state.thompson_states.get_or_create(node, list(names(tree)))
        trial = state.trial_store.create_trial(node, names(tree)[agent])
        algorithm.tell(state, trial.trial_id, (id, score))
    return algorithm, state


def same_frequencies(one, other):
    """The p value of a chi-square test that two lists are of one distribution; rare outcomes pooled."""
    outcomes = sorted(set(one) | set(other), key=str)
    table = np.array([[values.count(outcome) for outcome in outcomes] for values in (one, other)])
    rare = table.sum(0) < 10
    pooled = np.hstack([table[:, ~rare], table[:, rare].sum(1, keepdims=True)])
    pooled = pooled[:, pooled.sum(0) > 0]
    return 1.0 if pooled.shape[1] == 1 else float(stats.chi2_contingency(pooled).pvalue)


@pytest.mark.parametrize(("prior", "choice"), FORMS)
@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_choices_are_distributed_as_treequests(tree, prior, choice):
    number = 2000
    algorithm, rng = ours(tree, prior, choice), np.random.default_rng(1)
    mine = [algorithm.choose(rng) for _ in range(number)]
    oracle, state = theirs(tree, prior, choice)
    np.random.seed(2)  # noqa: NPY002 (TreeQuest draws from it)
    found = [oracle._get_expand_node_and_action(state, list(names(tree))) for _ in range(number)]
    its = [(None if node.expand_idx == -1 else node.expand_idx, action) for node, action in found]
    # 30 tests with fixed seeds: a difference of one in a hundred thousand would be no accident.
    assert same_frequencies(mine, its) > 1e-4


@pytest.mark.parametrize(("prior", "choice"), FORMS)
def test_posteriors_are_treequests_in_random_trees(prior, choice):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        tree = []
        for id in range(25):
            parent = int(rng.integers(-1, id))
            tree.append((None if parent < 0 else parent, int(rng.integers(2)), float(rng.random())))
        algorithm = ours(tree, prior, choice)
        _, state = theirs(tree, prior, choice)
        groups = names(tree) if choice == "stack" else ("shared",)
        for index, oracle in state.thompson_states.states.items():
            for group, arms in zip(
                groups, algorithm._nodes[None if index == -1 else index].arms, strict=True
            ):
                gen_or_cont = oracle.gen_vs_cont_probas[group]
                check(prior, arms.gen, gen_or_cont["GEN"])
                check(prior, arms.cont, gen_or_cont["CONT"])
                children = [child.id for child in arms.children]
                in_tree = state.tree.get_node(index).children
                assert children == [in_tree[i].expand_idx for i in sorted(oracle.node_probas[group])]
                for row, (_, belief) in zip(
                    arms.rows, sorted(oracle.node_probas[group].items()), strict=True
                ):
                    check_sums(prior, row, belief)
                if choice == "stack":
                    both = np.add((arms.gen.n, arms.gen.total, arms.gen.squares),
                                  (arms.cont.n, arms.cont.total, arms.cont.squares))  # fmt: skip
                    check_sums(prior, both, oracle.action_probas[group])
        for agent, rewards in state.all_rewards_store.items():
            mine = algorithm._by_agent[agent]
            assert (mine.n, mine.total) == (len(rewards), pytest.approx(sum(rewards)))


def check(prior, arm, belief):
    check_sums(prior, (arm.n, arm.total, arm.squares), belief)


def check_sums(prior, sums, belief):
    n, total, squares = (float(value) for value in sums)
    if prior == "beta":
        assert (0.5 + total, 0.5 + n - total) == pytest.approx(
            (belief.params["a"], belief.params["b"]), abs=1e-9
        )
    else:
        scores = belief.all_obs
        assert n == len(scores)
        assert (total, squares) == pytest.approx((sum(scores), sum(s * s for s in scores)), abs=1e-9)
