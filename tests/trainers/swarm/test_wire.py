"""What a learner takes of a sampler; what it refuses over HTTP is in `test_faults`."""

import pytest
from pydantic import ValidationError

from mars_env.models.requests import without_room
from mars_env.trainers.swarm import wire
from mars_env.types import Action, Completion, Sampling


def given(*completions):
    return wire.Give(sampler="s", ask="1", actions=wire.sent([Action("", (c,)) for c in completions]))


@pytest.mark.parametrize("length", [16, 20])
def test_a_prompt_that_fills_the_context_is_an_answer_as_in_one_process(length):
    [empty] = without_room((1,) * length, 1, Sampling())
    [action], why = wire.received(given(empty), 1, (0, 0), vocabulary=8, context=16)
    assert why == "" and action.interrupted
    more = Completion("4", "context", (1,) * length, (7,), (-0.5,), versions=((0, 1),))
    assert "context holds 16" in wire.received(given(more), 1, (0, 0), vocabulary=8, context=16)[1]


def test_an_unknown_log_probability():
    unknown = Completion("4", "stop", (1,), (7, 6), (-0.5, -9999.0), versions=((0, 2),))
    with pytest.raises(ValidationError) as caught:
        given(unknown)
    assert [error["loc"][-2:] for error in caught.value.errors()] == [("logprobs", 1)]
