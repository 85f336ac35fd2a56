"""Rows of an update: what they hold, and into what they divide."""

import math
from types import SimpleNamespace as S

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.rollouts.responses import BatchShape, batch_shape, response, responses
from mars_env.trainers.samples import TurnSample


def sample(group="p#0/0", **changes):
    fields = {
        "tree_id": "p#0", "turn_id": "0", "group_id": group, "agent": "solver_0", "role": "solver",
        "policy": "actor", "prompt_ids": (1, 2), "completion_ids": (3, 4, 1), "logprobs": (-0.5, -0.25, -1.0),
        "temperature": 0.85, "versions": ((0, 3),), "truncated": True,
        "reward": 1.0, "score": None, "advantage": -0.5,
    }  # fmt: skip
    return TurnSample(**fields | changes)


def test_a_row_holds_exactly_what_was_sampled():
    row = response(sample())
    assert row["observation_tokens"] == [1, 2, 3, 4, 1]
    assert row["rollout_log_probs"] == [0.0, 0.0, -0.5, -0.25, -1.0]
    assert row["action_ranges"] == [(2, 5)]
    assert row["truncated"]
    assert (row["reward"], row["scores"]) == (1.0, 1.0)
    assert row["extra_logs"] == {"advantage": -0.5}
    assert response(sample(score=0.25))["scores"] == 0.25


def test_what_tools_gave_is_read_and_not_trained_on():
    row = response(sample(completion_mask=(1, 0, 1)))
    assert row["action_ranges"] == [(2, 3), (4, 5)]
    assert len(row["observation_tokens"]) == len(row["rollout_log_probs"]) == 5


@given(
    rows=st.integers(1, 2000),
    ranks=st.sampled_from([1, 2, 3, 8]),
    rollout=st.sampled_from([1, 2, 4]),
    train=st.sampled_from([1, 2, 8]),
    times=st.integers(1, 6),
)
def test_padded_updates_divide_and_steps_stay_within_the_batch_size(rows, ranks, rollout, train, times):
    batch = math.lcm(rollout, train) * ranks * times
    padded = BatchShape(ranks, rollout, train, batch).padded(rows)
    steps = math.ceil(rows / batch)
    assert rows <= padded <= steps * batch
    assert math.ceil(padded / batch) == steps  # the trainer counts the same number of steps
    assert padded % (ranks * rollout) == 0
    assert padded // steps % (ranks * train) == 0


def test_gpus_that_make_no_whole_group_are_refused():
    args = S(
        actor=S(num_nodes=1, num_gpus_per_node=6), rollout=S(micro_batch_size=1),
        train=S(micro_batch_size=1, batch_size=64, dynamic_batch_enable=False),
        ds=S(ring_attn_size=8, tensor_parallel_size=1),
    )  # fmt: skip
    with pytest.raises(ConfigError):
        batch_shape(args)


def test_padding_comes_last_and_has_the_same_fields():
    rows = responses(
        [sample(), sample("p#0/1")],
        BatchShape(1, 4, 1, 8),
        temperature=0.85,
        padding_token=0,
    )
    assert [len(row["action_ranges"]) for row in rows] == [1, 1, 0, 0]
    assert {tuple(row) for row in rows} == {tuple(rows[0])}
