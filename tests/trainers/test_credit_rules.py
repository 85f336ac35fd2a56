"""Ways to credit a team, on trees small enough to work out on paper."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mars_env.errors import ConfigError
from mars_env.trainers.advantages import changed_rewards
from mars_env.trainers.config import Credit, TrainConfig, estimator_of
from mars_env.trainers.credit_rules import CREDIT_RULES, balanced_verdicts, credit_rule, majority_labels
from mars_env.trainers.recipes import MARSRL
from mars_env.types import Action, Completion, Grade, Group, Turn

ROLES = ("solver_0", "verifier_0", "corrector_0", "verifier_0")
GRADES = {1.0: Grade.correct(), 0.0: Grade.wrong("another value"), None: Grade.unknown("a fault")}
COMPLETION = Completion("4", prompt_ids=(1, 2), token_ids=(3,), logprobs=(-0.5,))

# Solvers and Correctors by their scores, Verifiers by whether they accept.
TREE = {
    "0": 1.0, "0.0": True, "0.1": False, "0.1.0": 1.0, "0.1.1": None,
    "1": 0.0, "1.0": False, "1.0.0": 1.0, "1.0.0.0": True, "1.0.1": 0.0, "1.1": True,
    "2": 0.0, "3": None,
}  # fmt: skip


def play(tree=TREE, answers=None, tree_id="p#0") -> list[Group]:
    """The groups of a tree of Solvers, Verifiers and Correctors, with MarsRL's rewards."""
    turns: dict[str, Turn] = {}
    for id, value in tree.items():
        parent = id.rpartition(".")[0] or None
        text = (answers or {}).get(id, "")
        agent = ROLES[id.count(".")]
        turn = Turn(
            tree_id, id, parent, f"{tree_id}/{parent}", agent, "mars", "p", Action(text, (COMPLETION,))
        )
        if agent == "verifier_0":
            score = turns[parent].grade.score
            info = {"verdict": "Correct" if value else "Wrong"}
            turns[id] = replace(turn, info=info, reward=None if score is None else float(score == value))
        else:
            turns[id] = replace(turn, grade=GRADES[value], reward=value)
    groups: dict[str, list[Turn]] = {}
    for turn in turns.values():
        groups.setdefault(turn.group_id, []).append(turn)
    return [Group(id, tuple(members)) for id, members in groups.items()]


def advantages(groups, **way) -> dict[str, float]:
    return {id: value for (_, id), value in estimator_of(Credit(**way))(groups).items()}


SOLVERS_TEAM = {"0": 1.120895, "1": -0.320256, "2": -0.800641}  # (1, 1/4, 0): mean 5/12, deviation 0.520416
PAIR = 0.707106  # of two turns, (1/2) / sqrt(1/2)
ON_PAPER = {
    "marsrl": {
        "0": 1.154699, "1": -0.577349, "2": -0.577349, "0.0": PAIR, "0.1": -PAIR, "1.0": PAIR, "1.1": -PAIR,
        "1.0.0": PAIR, "1.0.1": -PAIR,
    },
    "team": {
        **SOLVERS_TEAM, "0.0": 0, "0.1": 0, "1.0": PAIR, "1.1": -PAIR, "1.0.0": PAIR, "1.0.1": -PAIR,
    },
    "c3": {
        "0": 0.875, "1": -0.25, "2": -0.625, "0.0": 0, "0.1": 0, "1.0": 0.5, "1.1": -0.5,
        "1.0.0": 1, "1.0.1": -1,
    },
    "ccpo": {  # two outcomes of the pairs are (0, -1) and (1.2, -1)
        **SOLVERS_TEAM, "0.0": 0, "0.1": 0, "1.0": PAIR, "1.1": -PAIR, "1.0.0": PAIR, "1.0.1": -PAIR,
    },
    "dr-mas": {
        "0": 1.154699, "1": -0.577349, "2": -0.577349,
        "0.0": 0.730296, "0.1": -1.095443, "1.0": 0.730296, "1.1": -1.095443, "1.0.0.0": 0.730296,
        "0.1.0": 0.577349, "1.0.0": 0.577349, "1.0.1": -1.154699,
    },
    "at-grpo": {  # the Verifier of the second round has no other turn at its place
        "0": 1.154699, "1": -0.577349, "2": -0.577349,
        "0.0": 0.866024, "0.1": -0.866024, "1.0": 0.866024, "1.1": -0.866024,
        "0.1.0": 0.577349, "1.0.0": 0.577349, "1.0.1": -1.154699,
    },
    "mars2": {  # 6 of 11 known rewards are 1
        **dict.fromkeys(("0", "0.0", "1.0", "1.0.0", "1.0.0.0", "0.1.0"), 0.870387),
        **dict.fromkeys(("1", "2", "0.1", "1.1", "1.0.1"), -1.044464),
    },
}  # fmt: skip


@pytest.mark.parametrize("rule", CREDIT_RULES)
def test_values_on_paper(rule):
    assert advantages(play(), credit=rule) == pytest.approx(ON_PAPER[rule], abs=2e-6)


def test_ccpo_pays_what_the_team_adds_to_the_first_answers_and_charges_what_it_spoils():
    [solvers, verifiers] = credit_rule("ccpo").groups(play({"0": 1.0, "0.0": True, "1": 1.0, "2": 0.0}))[:2]
    assert [turn.reward for turn in solvers.turns] == [1, 1, -1]
    assert verifiers.turns[0].reward == 1  # the first answers are right more often than not
    spoilt = {"0": 1.0, "0.0": False, "0.0.0": 0.0, "1": 1.0}
    *_, corrected = credit_rule("ccpo").groups(play(spoilt))
    assert [turn.reward for turn in corrected.turns] == [-1.2]
    ungraded = [replace(g, turns=tuple(replace(t, grade=None) for t in g.turns)) for g in play()]
    with pytest.raises(ConfigError):
        advantages(ungraded, credit="ccpo")


trees = st.recursive(
    st.lists(st.sampled_from([0.0, 1.0, None]), min_size=1, max_size=3),
    lambda inner: st.lists(st.tuples(st.sampled_from([0.0, 1.0, None]), inner), min_size=1, max_size=3),
    max_leaves=12,
)


def named(level, prefix="") -> dict[str, float | None]:
    """A drawn tree as values by turn id, at most four levels deep."""
    nodes: dict[str, float | None] = {}
    for i, node in enumerate(level):
        value, below = node if isinstance(node, tuple) else (node, [])
        id = f"{prefix}{i}"
        nodes[id] = bool(value) if id.count(".") % 2 else value
        if id.count(".") < 3:
            nodes |= named(below, f"{id}.")
    return nodes


WAYS = [*({"credit": rule} for rule in sorted(CREDIT_RULES)), {"balance": True}, {"labels": "majority"}]

FEW = settings(max_examples=30)
"""There are nine ways."""


def graded_play(tree) -> list[Group]:
    """The groups of a drawn tree, whose graded turns answer 0 or 1."""
    turns = {"0": 1.0, **named(tree)}
    return play(turns, {id: rf"\boxed{{{len(turns) * int(id[-1]) % 2}}}" for id in turns})


@pytest.mark.parametrize("way", WAYS, ids=str)
@FEW
@given(tree=trees, shift=st.sampled_from([-2.0, 0.5, 3.0]), data=st.data())
def test_neither_order_nor_a_constant_matters_and_turns_of_unknown_reward_are_not_trained(
    way, tree, shift, data
):
    groups = graded_play(tree)
    found = advantages(groups, **way)
    assert not found.keys() & {turn.id for group in groups for turn in group.turns if turn.reward is None}
    shuffled = [
        replace(group, turns=tuple(data.draw(st.permutations(group.turns))))
        for group in data.draw(st.permutations(groups))
    ]
    assert advantages(shuffled, **way) == pytest.approx(found)
    shifted = changed_rewards(groups, lambda turn, reward: reward + shift)
    assert advantages(shifted, **way) == pytest.approx(found, abs=1e-6)


@pytest.mark.parametrize("rule", sorted(CREDIT_RULES.keys() - {"mars2"}))
@FEW
@given(tree=trees)
def test_only_mars2_compares_turns_of_several_roles(rule, tree):
    for group in credit_rule(rule).groups(graded_play(tree)):
        assert len({turn.role for turn in group.turns}) == 1


@given(tree=trees, other=trees)
def test_balanced_verdicts_leave_as_many_right_solutions_as_wrong_ones(tree, other):
    groups = play(named(tree)) + play(named(other), tree_id="q#0")
    by_key = {(turn.tree_id, turn.id): turn for group in groups for turn in group.turns}
    judged = {
        (turn.tree_id, turn.parent_id)
        for group in balanced_verdicts(groups)
        for turn in group.turns
        if turn.role == "verifier" and turn.reward is not None
    }
    counts = Counter(by_key[key].grade.score for key in judged)
    assert counts[1.0] == counts[0.0] and set(counts) <= {0.0, 1.0}
    others = [turn for group in balanced_verdicts(groups) for turn in group.turns if turn.role != "verifier"]
    assert all(turn.reward == by_key[turn.tree_id, turn.id].reward for turn in others)


ANSWERS = {"0": r"\boxed{7}", "1": r"\boxed{07}", "2": r"\boxed{8}", "2.0.0": r"\boxed{7}"}
VOTED = {"0": 0.0, "0.0": True, "1": 0.0, "2": 1.0, "2.0": False, "2.0.0": 0.0}


def test_majority_labels_read_answers_and_no_reference():
    rewards = {t.id: t.reward for g in majority_labels(play(VOTED, ANSWERS)) for t in g.turns}
    assert rewards == {"0": 1, "1": 1, "2": 0, "0.0": 1, "2.0": 1, "2.0.0": 1}


def test_a_majority_that_the_verifiers_reject_is_not_trained():
    rejected = {**VOTED, "0.0": False}
    assert all(t.reward is None for g in majority_labels(play(rejected, ANSWERS)) for t in g.turns)


def test_settings_choose_the_rules_and_whole_trees_are_asked_for():
    assert advantages(play(), credit="c3", advantage="mean_centred")["1.0"] == pytest.approx(0.25)
    own = f"{__name__}:by_length"
    assert advantages(play(), credit=own, advantage="mean_centred") == dict.fromkeys(advantages(play()), 0.0)
    with pytest.raises(ConfigError):
        estimator_of(TrainConfig(credit="c4"))
    for changes in ({"credit": "c3"}, {"balance": True}, {"labels": "majority"}):
        with pytest.raises(ConfigError):
            MARSRL.with_(train=changes, pipeline={"staleness": 1, "groups_per_update": 4})


def by_length(groups):
    """A user's own rule."""
    return [
        replace(g, turns=tuple(replace(t, reward=None if t.reward is None else 1.0) for t in g.turns))
        for g in groups
    ]
