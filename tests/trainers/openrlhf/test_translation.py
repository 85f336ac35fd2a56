"""A run file as OpenRLHF's flags: each setting has an effect, is the library's own matter, or is refused."""

import re
from types import SimpleNamespace as S

import pytest

from mars_env.errors import ConfigError
from mars_env.trainers.config import Overlong, TrainConfig
from mars_env.trainers.openrlhf.translation import (
    complete_flags,
    policies_of,
    require_supported,
    scheduled_steps,
)
from mars_env.trainers.recipes import MARS2, MARSRL

PLACE = {"out": "run", "team": {"model": "Qwen/Qwen3-8B"}, "problems_per_step": 16}
RUN = MARSRL.with_(environment={"id": "arithmetic-solve-verify-correct"}, **PLACE)

TRAIN = {
    "learning_rate": 1e-3, "warmup_updates": 7, "betas": (0.5, 0.6), "weight_decay": 0.1,
    "max_grad_norm": 2.0, "epochs": 2, "minibatches": 2, "token_budget": 99, "shared_prefixes": False,
    "gradient_checkpointing": True, "offload": True, "most_logits": 1, "autocast": True,
    "ratio": "sequence", "clip_low": 0.1, "clip_high": 0.3,
    "aggregation": "sequence-mean", "kl_coefficient": 0.5,
}  # fmt: skip
"""Another value of each setting that the optimiser or OpenRLHF's loss applies."""

ROWS = {
    "train_roles", "credit", "labels", "imitate", "balance", "advantage", "uniform_groups", "batch_roles",
    "tree_credit", "overlong", "call_cost", "tis_cap", "tis_veto", "dmmpt_threshold",
}  # fmt: skip
"""What advantages and weights of rows depend on: the library computes them for both backends."""


@pytest.mark.parametrize("name", sorted(TrainConfig.model_fields.keys() - ROWS - {"seed"}))
def test_each_setting_of_an_update_is_translated_or_refused(name):
    try:
        changed = complete_flags(RUN.with_(train={name: TRAIN[name]}))
    except ConfigError as error:
        assert f"train.{name}" in str(error) or "train.aggregation" in str(error)
    else:
        assert changed != complete_flags(RUN)


@pytest.mark.parametrize(
    ("changes", "flag", "values"),
    [
        ({"sampling": {"max_tokens": 77}}, "--rollout.max_new_tokens", ["77"]),
        ({"problems_per_step": 3}, "--rollout.batch_size", ["3"]),
        ({"rollouts": {"group": 4, "branches": 1}}, "--rollout.n_samples_per_prompt", ["20"]),
        ({"segment_tokens": 512}, "--vllm.enable_prefix_caching", []),
        ({"pipeline": {"staleness": 1}}, "--train.async_enable", []),
        ({"engine": {"context": 777}}, "--data.max_len", ["777"]),
        (
            {"engine": {"arguments": {"gpu_memory_utilization": 0.4}}},
            "--vllm.gpu_memory_utilization",
            ["0.4"],
        ),
        ({"team": {"model": ["a", "b", "c"]}, "engine": {"context": 9}}, "--actor.model_name_or_path", None),
        ({"openrlhf": {"ds": {"zero_stage": 3}}}, "--ds.zero_stage", ["3"]),
    ],
)
def test_other_settings(changes, flag, values):
    assert complete_flags(RUN.with_(**changes)).get(flag) == values
    assert complete_flags(RUN).get(flag) != values


def test_the_loss_of_mars2():
    run = MARS2.with_(environment={"id": "programs-tree-search"}, **PLACE)
    flags = complete_flags(run)
    assert flags["--actor.policy_loss_type"] == ["gspo"]
    assert flags["--actor.loss_agg_mode"] == ["seq-mean-token-mean"]
    assert flags["--actor.eps_clip_low_high"] == ["0.0003", "0.0004"]
    assert (flags["--algo.kl.init_coef"], flags["--algo.kl.use_loss"]) == (["0.001"], [])
    assert flags["--rollout.n_samples_per_prompt"] == ["8"]


def test_a_step_of_the_optimizer_has_the_rows_of_a_minibatch_and_divides_among_the_gpus():
    own = {"actor": {"num_gpus_per_node": 4}, "train": {"micro_batch_size": 3}}
    flags = complete_flags(RUN.with_(openrlhf=own, train={"minibatches": 5}))
    assert flags["--train.batch_size"] == ["240"]  # 16 * 72 / 5, up to a multiple of 12
    assert scheduled_steps(RUN.with_(steps=7, train={"minibatches": 5, "epochs": 2})) == 70


def test_a_warm_up_is_as_long_as_the_file_says():
    for updates in (0, 1, 3, 100):
        run = RUN.with_(steps=100, train={"warmup_updates": updates})
        ratio = float(complete_flags(run)["--actor.lr_warmup_ratio"][0])
        assert -(-ratio * 100 // 1) == updates  # OpenRLHF rounds up


REPEATED = {flag[2:] for flag in complete_flags(RUN).keys() - {"--reward.remote_url", "--vllm.num_engines"}}
WITHOUT_EFFECT_OR_ANOTHER_OBJECTIVE = {
    "data.label_key", "actor.entropy_coef", "ds.lora.rank", "train.enable_ema"
}  # fmt: skip


@pytest.mark.parametrize("flag", sorted(REPEATED | WITHOUT_EFFECT_OR_ANOTHER_OBJECTIVE))
def test_flags_of_a_setting_and_others_that_no_run_may_have_are_refused_by_name(flag):
    with pytest.raises(ConfigError, match=re.escape(f"openrlhf.{flag}")):
        complete_flags(RUN.with_(openrlhf={flag: 1}))


@pytest.mark.parametrize(
    "changes",
    [
        {"out": None},
        {"team": {"lora": 8}},
        {"team": {"model": "somebody/something"}},  # whose context is not known
        {"engine": {"name": "hf"}},
        {"sampling": {"top_p": 0.9}},
        {"sampling": {"temperature": 0}},
        {"openrlhf": {"data": {"label_key": "a"}, "vllm": {"num_engines": 0}}},
    ],
)
def test_what_openrlhf_cannot_do_is_refused(changes):
    with pytest.raises(ConfigError) as refused:
        complete_flags(RUN.with_(**changes))
    assert len(str(refused.value).splitlines()) == (2 if "openrlhf" in changes else 1)


def test_the_policies_of_a_run():
    assert policies_of(RUN) == {"policy": "Qwen/Qwen3-8B"}
    several = RUN.with_(team={"model": {"solver": "a", "verifier,corrector": "b"}})
    assert policies_of(several) == {"solver": "a", "verifier-corrector": "b"}


def arguments(sleep=False):
    return S(vllm=S(enable_sleep=sleep))


@pytest.mark.parametrize(
    ("changes", "sleep"),
    [
        ({"train": {"train_roles": ("solver_0",)}}, False),
        ({"train": {"train_roles": ("solver",)}, "team": {"others": {"solver": "scripted:42"}}}, False),
        ({"pipeline": {"staleness": 1}}, True),
        ({"train": {"overlong": Overlong(limit=100, buffer=10)}}, False),
        ({"rollouts": {"group": 1}}, False),
    ],
)
def test_unsupported(changes, sleep):
    with pytest.raises(ConfigError) as refused:
        require_supported(RUN.with_(**changes), arguments(sleep))
    assert "\n" not in str(refused.value)
