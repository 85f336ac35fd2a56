"""OpenRLHF's engine, extended, in this process: new weights come while a request is under way, for sure.

Whole runs (`test_openrlhf_training.py`) leave to chance whether one is.
"""

import asyncio
from types import SimpleNamespace

import pytest
import pytest_asyncio
from openrlhf_arguments import arguments

from mars_env.errors import ConfigError, ModelError
from mars_env.models.checksums import Checksum
from mars_env.trainers.tables import EngineSettings

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROMPT = [5, 6, 7, 8]
LENGTH = 400
LIMITED = EngineSettings(max_num_seqs=7, max_num_batched_tokens=640)
REQUEST = {"temperature": 1.0, "max_tokens": LENGTH, "ignore_eos": True, "logprobs": 0}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(checkpoint, shim):
    """The class that Ray makes an actor of, with a real vLLM, but without Ray."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", "nowhere")  # OpenRLHF asks Ray for it otherwise
        patch.setenv("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")  # OpenRLHF sets it: undone in the end
        from mars_env.trainers.openrlhf.workers.actors import TeamRolloutActor

        limited = type("Limited", (TeamRolloutActor,), {"settings": LIMITED})  # as the launcher makes it
        made = limited.__new__(limited)
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
    before = engine._version
    await engine.pause(midway)
    await engine.llm.is_sleeping()  # a call of the engine, as each weight is
    await engine.set_version(before + 1)
    await engine.resume()
    return before + 1


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


async def test_the_engine_works_under_the_limits_that_were_set(engine):
    scheduler = engine.llm.vllm_config.scheduler_config
    assert (scheduler.max_num_seqs, scheduler.max_num_batched_tokens) == (7, 640)


async def test_experts_stay_in_the_order_of_a_checkpoint_on_gpus(engine):
    """OpenRLHF writes new weights into them. vLLM knows the kernels by this name, and they move nothing."""
    import torch
    from vllm import AsyncEngineArgs
    from vllm.config.kernel import KernelConfig
    from vllm.model_executor.layers.fused_moe.oracle import unquantized

    from mars_env.trainers.openrlhf.workers.actors import ordered_experts

    asked = ordered_experts(SimpleNamespace(is_cuda=lambda: True))
    assert ordered_experts(SimpleNamespace(is_cuda=lambda: False)) == {}  # CPUs have kernels of their own
    assert AsyncEngineArgs.moe_backend == "auto" and KernelConfig(**asked).moe_backend == "triton"
    kernels = unquantized.map_unquantized_backend(asked["moe_backend"])
    gated = SimpleNamespace(is_act_and_mul=True)
    experts = torch.arange(96.0).reshape(2, 8, 6), torch.arange(48.0).reshape(2, 6, 4)
    kept = unquantized.convert_to_unquantized_kernel_format(kernels, gated, *experts)
    assert all(a.equal(b) for a, b in zip(kept, experts, strict=True))
    by_itself = unquantized.UnquantizedMoeBackend.FLASHINFER_CUTLASS
    moved = unquantized.convert_to_unquantized_kernel_format(by_itself, gated, *experts)
    assert not moved[0].equal(experts[0])


async def test_the_mismatch_between_engine_and_trainer_is_logged_whatever_the_loss(engine):
    import torch

    from mars_env.trainers.openrlhf.workers.actors import with_mismatch, without_padding

    experience = SimpleNamespace(
        action_mask=torch.tensor([[0, 1, 1], [0, 0, 1], [0, 0, 0]]),
        rollout_log_probs=torch.tensor([[9.0, -0.5, -1.0], [9.0, 9.0, -2.0], [9.0, 9.0, 9.0]]),
        action_log_probs=torch.tensor([[0.0, -0.6, -1.3], [0.0, 0.0, -1.4], [0.0, 0.0, 0.0]]),
    )
    status = {"metrics": {}, "weights": {}, "num_samples": 3.0, "num_action_tokens": 3.0}
    told = with_mismatch(status, experience)
    assert told["metrics"]["vllm_kl"].item() == pytest.approx((0.1 + 0.3 - 0.6) / 3)
    assert told["weights"] == {"vllm_kl": "token"}
    kept = without_padding(told, torch.tensor([True, True, False]))
    assert kept["metrics"]["vllm_kl"] == told["metrics"]["vllm_kl"]


async def test_the_engine_scores_given_tokens_as_it_samples_them(engine):
    [sampled] = await engine.sample(PROMPT, [{**REQUEST, "max_tokens": 24}])
    scored = await engine.score([*PROMPT, *sampled.token_ids])
    assert scored[len(PROMPT) - 1 :] == pytest.approx(list(sampled.logprobs), abs=1e-3)


async def test_engines_without_the_weights_that_were_sent_end_the_run(engine, monkeypatch):
    from mars_env.trainers.openrlhf.workers import trainer as module

    first, second = (Checksum("bfloat16", (2,), value) for value in (1, 2))
    answers = {"checksums": [{"a": first}] * 2, "score": [[-1.0, -2.0]] * 2}
    monkeypatch.setattr(module, "batch_vllm_engine_call", lambda engines, name, *call: answers[name])
    policy = module.PolicyTrainer.__new__(module.PolicyTrainer)
    policy.vllm_engines, policy.tokenizer, policy._sent = [], [0] * 35, {}
    policy._proofs = [module.WeightProof(name) for name in ("one", "two")]
    policy.prove_weights()  # nothing was sent yet
    policy._sent = {"a": first, "b": first}
    assert policy.prove_weights() == 1.0  # b is tied to a
    answers["checksums"] = [{"a": first}, {"a": second}]
    policy.prove_weights()  # once for each refresh
    policy._sent = {"a": first}
    with pytest.raises(ModelError):
        policy.prove_weights()


async def test_a_run_for_which_ray_would_wait_for_ever_is_refused(engine, monkeypatch):
    from mars_env.trainers.openrlhf.workers import processes

    gpus = {"GPU": 16.0}
    monkeypatch.setattr(processes.ray, "cluster_resources", lambda: gpus)
    processes.require_gpus([arguments()])
    gpus["GPU"] = 15.0
    with pytest.raises(ConfigError):
        processes.require_gpus([arguments()])
