"""OpenRLHF's engine, extended, in this process: new weights come while a request is under way, for sure.

Whole runs (`test_openrlhf_training.py`) leave to chance whether one is.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import pytest_asyncio

pytest.importorskip("openrlhf")
pytestmark = pytest.mark.asyncio(loop_scope="module")

SHIM = Path(__file__).parent / "openrlhf_shim"
PROMPT = [5, 6, 7, 8]
LENGTH = 400
REQUEST = {"temperature": 1.0, "max_tokens": LENGTH, "ignore_eos": True, "logprobs": 0}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(checkpoint):
    """The class that Ray makes an actor of, with a real vLLM, but without Ray."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SHIM)  # OpenRLHF imports flash-attn whether it is used or not
        patch.setenv("DS_ACCELERATOR", "cpu")
        patch.setenv("RAY_ADDRESS", "nowhere")  # OpenRLHF asks Ray for it otherwise
        patch.setenv("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")  # OpenRLHF sets it: undone in the end
        from mars_env.trainers.openrlhf.workers.actors import TeamRolloutActor

        made = TeamRolloutActor.__new__(TeamRolloutActor)
        await made.__init__(
            model=str(checkpoint), num_gpus=0, distributed_executor_backend="uni", enforce_eager=True
        )
        yield made
        made.llm.shutdown()


class Watched:
    """A request, and an event for its first tokens."""

    def __init__(self, engine, monkeypatch):
        self.begun, generate = asyncio.Event(), engine.llm.generate

        async def watched(*args, **kwargs):
            async for output in generate(*args, **kwargs):
                yield output
                self.begun.set()  # the engine has noted the output, and asks for the next

        monkeypatch.setattr(engine.llm, "generate", watched)
        self.task = asyncio.create_task(engine.sample(PROMPT, [REQUEST]))

    async def ended(self):
        [(tokens, logprobs, reason, versions)] = await self.task
        assert len(tokens) == len(logprobs) == sum(length for _, length in versions) == LENGTH
        assert reason == "length"
        return versions


async def new_weights(engine, midway):
    """What the trainer does, but for the weights; gives the version after."""
    before = await engine.version()
    await engine.hold(midway)
    await engine.llm.is_sleeping()  # a call of the engine, as each weight is
    await engine.set_version(before + 1)
    await engine.go_on()
    return await engine.version(before + 1)


async def test_partial_rollouts_end_with_the_new_weights_and_note_both_versions(engine, monkeypatch):
    request = Watched(engine, monkeypatch)
    await request.begun.wait()
    after = await new_weights(engine, midway=True)
    assert not request.task.done()
    assert [version for version, _ in await request.ended()] == [after - 1, after]


async def test_otherwise_what_is_under_way_ends_with_the_weights_it_began_with(engine, monkeypatch):
    request = Watched(engine, monkeypatch)
    await request.begun.wait()
    after = await new_weights(engine, midway=False)
    assert await request.ended() == ((after - 1, LENGTH),)


async def test_a_version_can_be_waited_for(engine):
    now = await engine.version()
    waiting = asyncio.create_task(engine.version(at_least=now + 1))
    await asyncio.sleep(0)
    assert not waiting.done()
    await engine.set_version(now + 1)
    assert await waiting == now + 1
