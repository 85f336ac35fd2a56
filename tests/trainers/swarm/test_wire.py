"""What a learner takes of a sampler; what it refuses over HTTP is in `test_faults`."""

import pytest

from mars_env.models.requests import without_room
from mars_env.trainers.swarm import wire
from mars_env.types import Action, Completion, Sampling


@pytest.mark.parametrize("length", [16, 20])
def test_a_prompt_that_fills_the_context(length):
    [empty] = without_room((1,) * length, 1, Sampling())
    sent = wire.Give(ask="1", actions=[Action("", (empty,))]).model_dump_json()
    actions = wire.Give.model_validate_json(sent).actions
    [action] = wire.received(actions, 1, (0, 0), vocabulary=8, context=16)
    assert action.interrupted
    more = Completion("4", "context", (1,) * length, (7,), (-0.5,), versions=((0, 1),))
    with pytest.raises(ValueError):
        wire.received([Action("", (more,))], 1, (0, 0), vocabulary=8, context=16)
