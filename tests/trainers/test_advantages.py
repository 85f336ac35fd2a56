from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turns import turn

from mars_env.errors import ConfigError
from mars_env.trainers.advantages import (
    AdvantageStats,
    advantage_stats,
    group_normalised,
    leave_one_out,
    mean_centred,
    over_batch,
    overlong_penalty,
    penalise_overlong,
    turn_key,
)
from mars_env.trainers.config import TrainConfig, estimator_of
from mars_env.types import Completion, Group

rewards_of_groups = st.lists(
    st.lists(st.none() | st.sampled_from([0.0, 1.0, 0.25, -1.0]), max_size=6), max_size=5
)


def group(id, rewards, length=3):
    completion = Completion("", token_ids=(1,) * length)
    turns = [turn(str(i), r, completion, tree=f"tree {id}", group=id) for i, r in enumerate(rewards)]
    return Group(id, tuple(turns))


def test_hand_computed_values_of_unequal_groups():
    groups = [group("a", [1.0, 0.0, 0.0, 0.0]), group("b", [2.0, 4.0])]
    # a: mean 1/4; squares 9/16 + 3/16 = 3/4; unbiased variance 1/4, std 1/2. b: mean 3, variance 2.
    found = group_normalised(groups, eps=0.0)
    assert list(found) == [(f"tree {group.id}", turn.id) for group in groups for turn in group.turns]
    assert list(found.values()) == pytest.approx([1.5, -0.5, -0.5, -0.5, -(2**-0.5), 2**-0.5])
    # population variance of a: 3/16, std sqrt(3)/4
    assert group_normalised(groups, unbiased=False, eps=0.0)[("tree a", "0")] == pytest.approx(3**0.5)
    assert mean_centred(groups)[("tree b", "0")] == -1.0
    assert leave_one_out(groups)[("tree b", "0")] == -2.0
    assert leave_one_out(groups)[("tree a", "1")] == pytest.approx(-1 / 3)


def test_what_is_dropped_is_counted():
    groups = [
        group("mixed", [1.0, 0.0, None]),
        group("uniform", [0.1, 0.1, 0.1]),
        group("one", [1.0, None]),
        group("unknown", [None, None]),
        group("empty", []),
    ]
    advantages = group_normalised(groups)
    assert advantage_stats(groups, advantages) == AdvantageStats(
        groups=5, turns=10, unknown=4, small=3, uniform=1, kept=2
    )
    assert advantage_stats([], {}) == AdvantageStats()
    counted = estimator_of(TrainConfig(uniform_groups="count"))([*groups, group("two", [1.0, 1.0])])
    sizes = {"mixed": 2, "uniform": 3, "two": 2}
    assert {*counted} == {(f"tree {name}", str(i)) for name, size in sizes.items() for i in range(size)}


@given(rewards_of_groups)
def test_advantages_have_mean_zero_and_unit_deviation_in_each_group(table):
    groups = [group(str(i), rewards) for i, rewards in enumerate(table)]
    advantages = group_normalised(groups)
    for g in groups:
        own = [advantages[t.tree_id, t.id] for t in g.turns if (t.tree_id, t.id) in advantages]
        if own:
            assert sum(own) == pytest.approx(0, abs=1e-9)
            assert sum(a * a for a in own) / (len(own) - 1) == pytest.approx(1, rel=1e-4)


def test_repeated_groups_and_turns_and_rewards_that_are_no_numbers_are_refused():
    one = group("a", [1.0, 0.0])
    same_id, same_turns = replace(group("b", [1.0, 0.0]), id="a"), replace(one, id="b")
    for groups in ([one, same_id], [one, same_turns], [group("a", [1.0, float("nan")])]):
        with pytest.raises(ConfigError):
            group_normalised(groups)


def test_overlong_penalty():
    penalties = [overlong_penalty(n, 8192) for n in (1, 6144, 6145, 7168, 8192, 9000)]
    assert penalties == [0.0, 0.0, -1 / 2048, -0.5, -1.0, -1.0]
    long, short = group("a", [1.0, None], length=9), group("b", [1.0, 0.0], length=2)
    penalised = penalise_overlong([long, short], max_length=10, buffer=4)
    assert [[t.reward for t in g.turns] for g in penalised] == [[0.25, None], [1.0, 0.0]]
    assert overlong_penalty(2, 2, buffer=1) == -1.0
    with pytest.raises(ConfigError):
        overlong_penalty(1, 2, buffer=0)


def test_a_role_is_compared_over_the_batch_by_hand():
    """Three questions that are alone in their groups: 1, 0 and -1 become 1, 0 and -1 standard deviations."""
    asked = [group(f"g{i}", [reward]) for i, reward in enumerate((1.0, 0.0, -1.0))]
    asked = [replace(g, turns=(replace(g.turns[0], agent="questioner_0"),)) for g in asked]
    answers = group("answers", [1.0, 0.0])
    config = TrainConfig(batch_roles=("questioner",))
    for batch in ([*asked, answers], [answers, *reversed(asked)]):
        found = estimator_of(config)(batch)
        assert [found[turn_key(g.turns[0])] for g in asked] == pytest.approx([1.0, 0.0, -1.0], abs=1e-5)
        assert found == group_normalised(over_batch(batch, ["questioner"]))
    alone = estimator_of(TrainConfig())([*asked, answers])
    assert set(alone) == {turn_key(turn) for turn in answers.turns}
    stats = advantage_stats(over_batch([*asked, answers], ["questioner"]), found)
    assert (stats.groups, stats.small, stats.kept) == (2, 0, 5)
    mixed = replace(answers, turns=(*answers.turns, asked[0].turns[0]))
    assert [len(g.turns) for g in over_batch([mixed, asked[1]], ["questioner"])] == [2, 2]
