"""What to change so that a run fits."""

import pytest
from openrlhf_arguments import arguments

from mars_env.trainers.openrlhf.planning.dry_run import advise, applied
from mars_env.trainers.openrlhf.planning.memory import GIB, fits, gpu_pools
from mars_env.trainers.openrlhf.planning.models import PRESETS

SHARED = {"train__colocate_all": True, "vllm__gpu_memory_utilization": 0.6}
TWO = {"actor__num_gpus_per_node": 2, "ref__num_gpus_per_node": 2, "vllm__num_engines": 2}
MODELS = ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B", "Qwen/Qwen3-14B", "Qwen/Qwen3-30B-A3B")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("gib", [16, 24, 80])
@pytest.mark.parametrize("changes", [{}, SHARED, SHARED | TWO, TWO], ids=["apart", "shared", "two", "four"])
@pytest.mark.parametrize("context", [1000, 24_576])
def test_what_is_advised_fits(model, gib, changes, context):
    args = arguments(**changes, data__max_len=context, algo__kl__init_coef=0.01)
    advice = advise(args, [PRESETS[model]], gib * GIB)
    assert advice is not None
    changed = applied(args, advice)
    assert fits(changed, PRESETS[model], gib * GIB)
    assert bool(advice) != fits(args, PRESETS[model], gib * GIB)
    if not any(flag.startswith("actor.num") for flag in advice):
        assert sum(pool.gpus for pool in gpu_pools(changed)) == sum(pool.gpus for pool in gpu_pools(args))


def test_dynamic_batches_hold_one_row():
    args = arguments(train__dynamic_batch_enable=True, ds__ring_attn_size=2, data__max_len=20_000)
    model = PRESETS["Qwen/Qwen3-14B"]
    advice = advise(args, [model], 40 * GIB)
    assert advice["train.max_tokens_per_gpu"] * advice.get("ds.ring_attn_size", 2) == 20_000
    assert fits(applied(args, advice), model, 40 * GIB)


def test_nothing_is_advised_that_is_not_needed():
    model, gpu = PRESETS["Qwen/Qwen3-8B"], 80 * GIB
    args = arguments(**SHARED, **TWO, data__max_len=24_576)
    advice = advise(args, [model], gpu)
    assert advice
    for flag in advice:
        kept = {name: advice[name] for name in advice if name != flag}
        assert not fits(applied(args, kept), model, gpu)


def test_changes_that_cannot_be_used_are_not_advised():
    args = arguments(**SHARED, **TWO, data__max_len=24_576)
    model = PRESETS["Qwen/Qwen3-8B"]
    assert "vllm.enable_sleep" in advise(args, [model], 80 * GIB)
    awake = advise(args, [model], 80 * GIB, lambda changed: not changed.vllm.enable_sleep)
    assert awake
    assert "vllm.enable_sleep" not in awake


def test_a_gpu_without_room_for_anything():
    assert advise(arguments(), [PRESETS["Qwen/Qwen3-8B"]], 1 * GIB) is None
