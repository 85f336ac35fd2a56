"""What becomes of a fault of an engine in a Ray actor; Ray itself is not started."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from mars_env.errors import MarsError, ModelError
from mars_env.trainers.openrlhf.rollouts.engines import RayEngine, require_alive

exceptions = pytest.importorskip("ray.exceptions")


class EngineDeadError(Exception):
    """As vLLM's."""


def engine(result):
    """An engine whose actor answers so."""

    def remote(ids, requests):
        future = Future()
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
        return SimpleNamespace(future=lambda: future)

    return RayEngine(SimpleNamespace(sample=SimpleNamespace(remote=remote)))


def of_task(cause):
    return exceptions.RayTaskError("sample", "the actor's traceback", cause).as_instanceof_cause()


async def test_a_request_that_fails_costs_its_turn_and_no_more():
    one = engine(of_task(ValueError("the prompt is too long")))
    with pytest.raises(ModelError):
        await one.sample([1], [{}])
    require_alive([one])


@pytest.mark.parametrize("error", [of_task(EngineDeadError("see above")), exceptions.RayActorError()])
async def test_a_dead_engine_ends_the_run(error):
    lives, dead = engine([]), engine(error)
    with pytest.raises(ModelError):
        await dead.sample([1], [{}])
    with pytest.raises(MarsError) as raised:
        require_alive([lives, dead])
    assert not isinstance(raised.value, ModelError)
