import pytest
from hypothesis import given
from hypothesis import strategies as st
from turns import turn

from mars_env.errors import ConfigError
from mars_env.trainers.advantages import advantage_stats, group_normalised
from mars_env.trainers.config import Overlong, TrainConfig, TreeCredit, estimator_of
from mars_env.trainers.scorable import has_no_gradient
from mars_env.trainers.tree_credit import tree_shaped
from mars_env.types import Completion, Group


def tree(rewards, name="p#0", lengths=None):
    """A tree of two agents by turns, with these rewards by turn id and these completion lengths."""
    turns = []
    for i, (id, reward) in enumerate(rewards.items()):
        coder, length = f"coder_{i % 2}", (lengths or {}).get(id, 1)
        completion = Completion("", prompt_ids=(1,), token_ids=(2,) * length, logprobs=(-1.0,) * length)
        turns.append(turn(id, reward, completion, agent=coder, policy=coder, tree=name, group=name))
    return Group(name, tuple(turns))


def shaped(rewards, **settings):
    (group,) = tree_shaped([tree(rewards)], **settings)
    return {turn.id: turn.reward for turn in group.turns}


# A tree of 8 nodes, as MARS2 trains on, worked out by hand:
#
#     (root)
#     ├── 0: 0                      siblings 1, 2: mean 1/2          b = 1/2    r^ = 0 - 1/4
#     │   ├── 0.0: 1                parent 0, sibling 0.1: 0         b = 0      r^ = 1 + 1/2
#     │   └── 0.1: 0                parent 0, sibling 0.0: 1         b = 1/2    r^ = 0 - 1/4
#     │       └── 0.1.0: 1          parent 0, no siblings            b = 0      r^ = 1 + 1/2
#     ├── 1: 1                      siblings 0, 2: mean 0            b = 0      r^ = 1 + 1/2
#     │   ├── 1.0: 0                parent 1, siblings 1.1: 1        b = 1      r^ = 0 - 1/2
#     │   └── 1.1: 1                parent 1, sibling 1.0: 0         b = 1/2    r^ = 1 + 1/4
#     └── 2: 0                      siblings 0, 1: mean 1/2          b = 1/2    r^ = 0 - 1/4
EIGHT = {"0": 0.0, "0.0": 1.0, "0.1": 0.0, "0.1.0": 1.0, "1": 1.0, "1.0": 0.0, "1.1": 1.0, "2": 0.0}
EIGHT_SHAPED = {
    "0": -0.25, "0.0": 1.5, "0.1": -0.25, "0.1.0": 1.5, "1": 1.5, "1.0": -0.5, "1.1": 1.25, "2": -0.25
}  # fmt: skip


def test_a_tree_of_eight_worked_out_by_hand():
    assert shaped(EIGHT) == pytest.approx(EIGHT_SHAPED, abs=1e-6)


def test_other_coefficients_worked_out_by_hand():
    # w = 1/4, g = 2; the parent has 0.2; of the siblings 0.6 and 0.4 the mean is 0.5:
    # b = 3/4 * 0.2 + 1/4 * 0.5 = 0.275; r^ = 1 + 2 * 0.725
    found = shaped({"0": 0.2, "0.0": 1.0, "0.1": 0.6, "0.2": 0.4}, sibling_weight=0.25, strength=2.0)
    assert found["0.0"] == pytest.approx(2.45, abs=1e-6)
    assert found["0"] == 0.2  # a lone child of the root: nothing to compare with


def test_unknown_rewards_stay_unknown_and_nothing_is_compared_with_them():
    # An unknown sibling is left out of the mean.
    assert shaped({"0": 1.0, "1": None, "2": 0.0}) == {"0": 1.5, "1": None, "2": -0.5}
    assert shaped({"0": 1.0, "1": None}) == {"0": 1.0, "1": None}
    # Under an unknown parent the baseline is the siblings' mean, and without siblings there is none.
    found = shaped({"0": None, "0.0": 1.0, "0.1": 0.0, "0.0.0": 0.0})
    assert found == {"0": None, "0.0": 1.5, "0.1": -0.5, "0.0.0": -0.5}
    assert shaped({"0": None, "0.0": 1.0}) == {"0": None, "0.0": 1.0}


def test_parents_are_found_in_other_groups_of_the_batch():
    (whole,) = (tree(EIGHT),)
    parts = [Group(f"{i}", (turn,)) for i, turn in enumerate(reversed(whole.turns))]
    found = {t.id: t.reward for group in tree_shaped(parts) for t in group.turns}
    assert found == pytest.approx(EIGHT_SHAPED)


def test_a_lost_parent_is_refused_and_not_taken_for_the_root():
    torn = Group("p#0", tree(EIGHT).turns[1:])
    with pytest.raises(ConfigError):
        tree_shaped([torn])


@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=12),
    st.floats(-10, 10),
    st.floats(0, 1),
    st.floats(0, 3),
)
def test_a_uniform_tree_stays_uniform(parents, reward, weight, strength):
    ids: list[str] = []
    for i, parent in enumerate(parents):  # a random tree, its ids as the growers give them
        ids.append(f"{ids[parent % i]}.{i}" if i and parent else str(i))
    (group,) = tree_shaped([tree(dict.fromkeys(ids, reward))], sibling_weight=weight, strength=strength)
    assert {turn.reward for turn in group.turns} == {reward}
    assert group_normalised([group]) == {}


def test_the_length_of_a_parent_is_not_its_childs_baseline():
    config = TrainConfig(
        advantage="mean_centred", tree_credit=TreeCredit(), overlong=Overlong(limit=100, buffer=20)
    )
    group = tree({"0": 1.0, "0.0": 1.0}, lengths={"0": 90, "0.0": 10})
    found = {id: a for (_, id), a in estimator_of(config)([group]).items()}
    assert found == pytest.approx({"0": -0.25, "0.0": 0.25})  # rewards 1 - 0.5 and 1


def test_a_group_whose_rewards_differ_only_by_their_lengths_is_trained_and_not_counted_as_uniform():
    groups = [tree({"0": 1.0, "1": 1.0}, lengths={"0": 10, "1": 90})]
    short = [tree({"0": 1.0, "1": 1.0}, lengths={"0": 10, "1": 20})]
    config = TrainConfig(overlong=Overlong(limit=100, buffer=20))
    found = estimator_of(config)(groups)
    assert len(found) == 2
    assert advantage_stats(groups, found).uniform == 0
    assert advantage_stats(short, estimator_of(config)(short)).uniform == 1
    assert [has_no_gradient(config, *one) for one in (groups, short)] == [False, True]
    assert has_no_gradient(TrainConfig(), *groups)


def test_a_group_of_a_role_or_of_policies_that_are_not_trained_has_no_gradient():
    group = tree({"0": 1.0, "1": 0.0})  # of coder_0 and coder_1
    for trained, frozen, expected in (
        (("coder",), (), False),
        (("other",), (), True),
        (None, ("coder_0",), False),
        (None, ("other",), False),
        (None, ("coder_0", "coder_1"), True),
    ):
        assert has_no_gradient(TrainConfig(train_roles=trained), group, frozen) is expected


@pytest.mark.parametrize(("reward", "found"), [(1.0, False), (None, True)])
def test_a_group_that_is_compared_over_the_batch_teaches_something_although_its_rewards_are_equal(
    reward, found
):
    group = tree({"0": reward, "1": reward})
    config = TrainConfig(batch_roles=(group.turns[0].role,))
    other = tree({"0": 0.0, "1": 0.0}, name="q#0")
    assert has_no_gradient(config, group) is found
    trained = {tree_id for tree_id, _ in estimator_of(config)([group, other])}
    assert (group.id not in trained) is found  # what an update with other groups does
