"""Hours of an update against numbers worked out by hand."""

from types import SimpleNamespace as S

import pytest

from mars_env.trainers.openrlhf.planning import hours as module
from mars_env.trainers.openrlhf.planning.hours import (
    Work,
    describe_hours,
    hours,
    sampling_seconds,
    step_seconds,
    training_seconds,
)
from mars_env.trainers.openrlhf.planning.sizes import Architecture, architecture_of

MODEL = Architecture(8, 3, 2, 2, 4, 16, vocabulary=10)
"""By hand, a layer: attention 8 x 32 = 256, feed-forward 3 x 8 x 16 = 384, norms 16: 656."""


@pytest.fixture(autouse=True)
def round_speeds(monkeypatch):
    for name, value in (("PEAK", 1000.0), ("SHARE", 0.5), ("BANDWIDTH", 400.0), ("BANDWIDTH_SHARE", 0.25)):
        monkeypatch.setattr(module, name, value)


def arguments(**changes):
    args = S(
        actor=S(num_nodes=1, num_gpus_per_node=2, gradient_checkpointing_enable=True),
        algo=S(kl=S(init_coef=0.0)),
        data=S(max_len=100),
        ds=S(ring_attn_size=1, tensor_parallel_size=1, zero_stage=2),
        rollout=S(micro_batch_size=1, max_new_tokens=60),
        train=S(micro_batch_size=1, batch_size=4, dynamic_batch_enable=False, async_enable=False),
        vllm=S(num_engines=2, tensor_parallel_size=1),
    )
    for path, value in changes.items():
        group, name = path.split("__")
        setattr(getattr(args, group), name, value)
    return args


def test_the_weights_that_a_token_meets():
    assert MODEL.parameters == 3 * 656 + 2 * 80 + 8 == 2136
    assert MODEL.active_parameters == 2136 - 80  # the embedding is looked up
    tied = Architecture(8, 3, 2, 2, 4, 16, vocabulary=10, tied=True)
    assert tied.active_parameters == tied.parameters == 2136 - 80
    sparse = Architecture(
        8, 3, 2, 2, 4, 16, vocabulary=10, tied=True, experts=4, expert_intermediate=5, experts_per_token=1,
        dense_layers=1,
    )  # fmt: skip
    assert sparse.parameters - sparse.active_parameters == 2 * 3 * (3 * 8 * 5)  # 3 idle experts in 2 layers


@pytest.mark.parametrize(
    ("changes", "passes"),
    [
        ({}, 5),  # forward, backward (2), forward again for checkpointing, the trainer's log-probabilities
        ({"actor__gradient_checkpointing_enable": False}, 4),
    ],
)
def test_training_computes_at_a_share_of_the_peak(changes, passes):
    forward = 2 * 2056 + 2 * 3 * 2 * 4 * 100  # weights, and attention over half of 100 tokens, twice
    assert training_seconds(arguments(**changes), MODEL, rows=4) == pytest.approx(
        4 * 100 * forward * passes / (2 * 500)
    )


def test_the_reference_is_one_more_pass():
    args = arguments()
    args.algo.kl.init_coef = 0.1
    assert training_seconds(args, MODEL, 4) == pytest.approx(training_seconds(arguments(), MODEL, 4) * 6 / 5)


def test_a_step_reads_the_weights_and_the_caches():
    cache = 2 * 2 * 3 * 2 * 4  # keys and values, 16 bits, 3 layers, 2 heads of 4
    assert step_seconds(arguments(), MODEL, 5, held=70.0) == pytest.approx(
        (2 * 2136 if 5 * 2056 > 2136 else 0) / 100 + 5 * 70 * cache / 100
    )
    computed = 2 * 2056 * 5 / 500
    assert step_seconds(arguments(), MODEL, 5, held=0.0) == pytest.approx(max(4272 / 100, computed))


def test_completions_share_the_steps_of_their_engines():
    step = step_seconds(arguments(), MODEL, 3, held=70.0)
    prompts = 2 * 2056 * (12 * 40 / 2) / 500
    told = sampling_seconds(arguments(), MODEL, 210, None, rows=12, chain=0, longest=60)
    assert told == pytest.approx(step * 12 * 60 / (2 * 3) + prompts)  # 210 tokens of cache hold 3 of 70
    fewer = sampling_seconds(arguments(), MODEL, 210, 2, rows=12, chain=0, longest=60)
    assert fewer == pytest.approx(step_seconds(arguments(), MODEL, 2, 70.0) * 12 * 60 / (2 * 2) + prompts)


def test_a_chain_takes_as_long_as_its_completions_one_after_the_other():
    told = sampling_seconds(arguments(), MODEL, 10_000, None, rows=2, chain=50, longest=60)
    assert told == pytest.approx(50 * 60 * step_seconds(arguments(), MODEL, 1, 70.0))


def test_sampling_and_training_add_up_or_overlap():
    work = Work(rows=4, chain=0, evaluation=(6, 2, 30), evaluate_every=3)
    apart, over = (hours(arguments(train__async_enable=on), MODEL, 1000, work) for on in (False, True))
    assert apart.evaluation == pytest.approx(sampling_seconds(arguments(), MODEL, 1000, None, 6, 2, 30) / 3)
    assert apart.update == pytest.approx(apart.sampling + apart.training + apart.evaluation)
    assert over.update == pytest.approx(max(over.sampling, over.training) + over.evaluation)
    assert hours(arguments(ds__zero_stage=3), MODEL, 1000, work).gathers > 0 == apart.gathers


def test_hours_are_told_for_the_run_or_for_a_hundred_updates():
    model = architecture_of("Qwen/Qwen3-4B")
    work = Work(rows=4, chain=0, updates=7)
    told = hours(arguments(), model, 1000, work)
    lines = "\n".join(describe_hours(told, work))
    assert f"{told.update * 7 / 3600:.1f} for the run's 7 updates" in lines
    assert "50% of their peak and 25% of their bandwidth" in lines
    assert "for every 100 updates" in "\n".join(describe_hours(told, Work(rows=4, chain=0)))
