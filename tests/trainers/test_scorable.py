"""A turn that cannot be scored costs itself: what is trained of the others is as without it."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turns import SAMPLED, turn

from mars_env.errors import ModelError
from mars_env.trainers.config import Overlong, TrainConfig, TreeCredit
from mars_env.trainers.samples import preference_pairs, turn_samples
from mars_env.trainers.scorable import has_no_gradient, scorable_groups, unscorable
from mars_env.types import UNKNOWN_LOGPROB, Action, Completion, Group

BAD = {
    "no_tokens": [
        Action("x"),
        Action("x", (Completion("x"),)),
        Action("x", (replace(SAMPLED, token_ids=(), logprobs=()),)),
        Action("x", (replace(SAMPLED, prompt_ids=()),)),
        Action("x", (SAMPLED, Completion("x"))),
    ],
    "no_logprobs": [Action("x", (replace(SAMPLED, logprobs=each),)) for each in ((), (-0.5,), (-0.5,) * 3)],
    "bad_logprobs": [
        Action("x", (replace(SAMPLED, logprobs=(-0.5, bad)),))
        for bad in (None, math.nan, math.inf, -math.inf, 0.5, UNKNOWN_LOGPROB, -1e30)
    ],
    "greedy": [Action("x", (replace(SAMPLED, temperature=0.0),))],
}
REASONS = [(reason, action) for reason, actions in BAD.items() for action in actions]
CONFIGS = [
    TrainConfig(),
    TrainConfig(advantage="mean_centred", uniform_groups="drop", batch_roles=("verifier",)),
    TrainConfig(advantage="leave_one_out", tree_credit=TreeCredit(), overlong=Overlong(limit=4, buffer=4)),
]


@pytest.mark.parametrize(("reason", "action"), REASONS)
def test_each_reason(reason, action):
    assert unscorable(replace(turn("0", 1.0), action=action)) == reason


def test_rounding_above_0_can_be_scored():
    assert unscorable(turn("0", 1.0, replace(SAMPLED, logprobs=(1e-4, 0.0)))) == ""


@st.composite
def steps(draw):
    """The groups of a step, and the same with faults in some turns, with the number of each reason."""
    groups, changed, counts = [], [], {}
    for name in range(draw(st.integers(1, 4))):
        own, faulty = [], []
        for place in range(draw(st.integers(1, 5))):
            role = draw(st.sampled_from(["solver_0", "verifier_0"]))
            reward = draw(st.sampled_from([None, 0.0, 0.5, 1.0]))
            one = turn(str(place), reward, agent=role, tree=f"t{name}", group=f"g{name}")
            own.append(one)
            if draw(st.booleans()):
                reason, action = draw(st.sampled_from(REASONS))
                own[-1] = replace(one, reward=None)
                one = replace(one, action=action)
                if reward is not None:
                    counts[reason] = counts.get(reason, 0) + 1
            faulty.append(one)
        groups.append(Group(f"g{name}", tuple(own)))
        changed.append(Group(f"g{name}", tuple(faulty)))
    return groups, changed, counts


@given(steps(), st.sampled_from(CONFIGS))
def test_what_is_trained_of_the_others_is_as_with_an_unknown_reward(step, config):
    unknown, faulty, counts = step
    assert turn_samples(faulty, config) == turn_samples(unknown, config)
    assert preference_pairs(scorable_groups(faulty, config)[0], config) == preference_pairs(unknown, config)
    assert [has_no_gradient(config, g) for g in faulty] == [has_no_gradient(config, g) for g in unknown]
    cleaned, found = scorable_groups(faulty, config)
    assert found == counts
    rewards = [[each.reward for each in group.turns] for group in cleaned]
    assert rewards == [[each.reward for each in group.turns] for group in unknown]


def test_turns_that_are_not_trained_need_no_tokens_and_count_in_their_groups():
    bare = turn("1", 0.0, Completion("text"), policy="helper")
    other = turn("2", 1.0, Completion("text"), agent="verifier_0")
    groups = [Group("g", (turn("0", 1.0), bare, other))]
    config = TrainConfig(train_roles=("solver",), advantage="mean_centred")
    [sample] = turn_samples(groups, config, frozen=["helper"])
    assert (sample.turn_id, round(sample.advantage, 6)) == ("0", round(1 / 3, 6))
    assert scorable_groups(groups, config, ["helper"])[1] == {}


def test_a_step_of_which_nothing_can_be_scored_ends_the_run():
    bare = Group("g", (turn("0", 1.0, Completion("text")), turn("1", 0.0, Completion("text"))))
    unknown = Group("h", (turn("2", None),))
    config = TrainConfig()
    with pytest.raises(ModelError):
        scorable_groups([bare, unknown], config, required=True)
    for groups in ([unknown], [bare, Group("h", (turn("2", 1.0),))], []):
        scorable_groups(groups, config, required=True)
