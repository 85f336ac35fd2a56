"""Whether a context leaves room, before OpenRLHF starts: in training and in the evaluation inside of it."""

from types import SimpleNamespace as S

from mars_env.trainers.openrlhf.planning.checks import require_room_for
from messages import raises

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.settings import TeamSettings

SETTINGS = TeamSettings(
    env="arithmetic-solve-verify-correct",
    options={"schedule": "training", "rounds": 1},
    problems=20,
)


def arguments(context, limit=100):
    rollout = S(max_new_tokens=limit, temperature=1.0)
    return S(data=S(max_len=context), rollout=rollout, eval=S(temperature=0.6))


def test_a_context_that_is_too_small_in_training_is_refused():
    require_room_for(SETTINGS, arguments(4000), "no/checkpoint")
    with raises(ConfigError):
        require_room_for(SETTINGS, arguments(200), "no/checkpoint")
    unchecked = SETTINGS.model_copy(update={"overflow": "unknown"})
    require_room_for(unchecked, arguments(200), "no/checkpoint")


def test_a_completion_that_fills_the_context():
    unchecked = SETTINGS.model_copy(update={"overflow": "unknown"})
    for limit in (200, 300):
        with raises(ConfigError):
            require_room_for(unchecked, arguments(200, limit), "no/checkpoint")


def test_a_context_that_is_too_small_in_evaluation_alone_is_refused(tmp_path):
    path = tmp_path / "long.jsonl"
    path.write_text('{"id": "a", "problem": "' + "one " * 5000 + '", "answer": "1"}\n')
    require_room_for(SETTINGS, arguments(4000), "no/checkpoint")
    longer = SETTINGS.model_copy(update={"eval_set": str(path), "eval_problems": 1})
    with raises(ConfigError):
        require_room_for(longer, arguments(4000), "no/checkpoint")
