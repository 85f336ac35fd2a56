"""What the launcher refuses, and which of OpenRLHF's flags it gives itself."""

from types import SimpleNamespace as S

import pytest
from messages import raises
from openrlhf_arguments import arguments

from mars_env.errors import ConfigError
from mars_env.trainers.config import Overlong
from mars_env.trainers.openrlhf.flags import (
    AT_LEAST_ONE,
    REFUSED,
    complete,
    require_supported,
    resolved,
    sampling_of,
)
from mars_env.trainers.openrlhf.settings import TeamSettings

SETTINGS = TeamSettings(env="arithmetic-solve-verify-correct", options={"schedule": "training"})


CORRECTION = "algo__advantage__is_correction_"
MASKS = {f"{CORRECTION}gating": "tv", f"{CORRECTION}mode": "mask"}


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        ({}, {}),
        ({}, {"algo__kl__init_coef": 0.001, "algo__kl__use_loss": True}),
        ({"staleness": 1}, {"train__async_enable": True}),
        ({}, {f"{CORRECTION}level": "off"}),
        ({"staleness": 1, "tis_cap": 2.0}, {f"{CORRECTION}level": "off"}),
        ({}, {**MASKS, f"{CORRECTION}threshold": [0.0, 0.1]}),
        ({}, {f"{CORRECTION}level": "seq", f"{CORRECTION}mode": "mask"}),
    ],
)
def test_supported(settings, changes):
    require_supported(SETTINGS.model_copy(update=settings), arguments(**changes))


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        ({}, {"ds__lora__rank": 8}),
        ({}, {"algo__advantage__estimator": "rloo"}),
        ({}, {"algo__kl__init_coef": 0.01}),
        ({}, {"rollout__top_p": 0.9}),
        ({}, {"train__async_queue_size": 2}),
        ({}, {"train__async_enable": True}),
        ({}, {"train__enable_ema": True}),
        ({"train_roles": ("solver_0",)}, {}),
        ({"train_roles": ("solver", "judge")}, {}),
        ({"train_roles": ()}, {}),
        ({"others": {"solver": "scripted:42"}, "train_roles": ("solver",)}, {}),
        ({"staleness": 1}, {"vllm__enable_sleep": True}),
        ({"staleness": 2}, {f"{CORRECTION}level": "off"}),
        ({"overlong": Overlong(limit=100, buffer=10)}, {}),
        ({}, {f"{CORRECTION}level": "seq"}),
        ({"tis_cap": 2.0}, {}),
        ({"dmmpt_threshold": 0.9}, {"actor__policy_loss_type": "gspo"}),
        ({}, {f"{CORRECTION}gating": "tv"}),
        ({}, {**MASKS, f"{CORRECTION}threshold": [0.5, 5.0]}),
    ],
)
def test_unsupported(settings, changes):
    with raises(ConfigError) as refused:
        require_supported(SETTINGS.model_copy(update=settings), arguments(**changes))
    assert "\n" not in str(refused.value)


def test_a_line_for_each_wrong_flag():
    with pytest.raises(ConfigError) as refused:
        complete(SETTINGS, {"--data.label_key": ["a"], "--train.batch_size": ["0"]})
    assert len(str(refused.value).splitlines()) == 2


@pytest.mark.parametrize("flag", sorted(REFUSED))
def test_flags_that_would_do_nothing_or_harm_are_refused(flag):
    with raises(ConfigError):
        complete(SETTINGS, {flag: ["1"]})


@pytest.mark.parametrize("flag", AT_LEAST_ONE)
@pytest.mark.parametrize("number", ["0", "-2"])
def test_numbers_that_would_be_divided_by_are_at_least_one(flag, number):
    with raises(ConfigError):
        complete(SETTINGS, {flag: [number]})
    complete(SETTINGS, {flag: ["1"]})


def test_openrlhf_gets_what_the_team_decides_and_its_users_keep_what_they_set(tmp_path):
    flags = {"--ckpt.path": [str(tmp_path)], "--algo.kl.init_coef": ["0.001"]}
    full = complete(SETTINGS.model_copy(update={"eval_problems": 3}), flags)
    assert full.items() >= flags.items()
    assert full["--algo.advantage.is_correction_threshold"] == ["5"]
    assert full["--rollout.n_samples_per_prompt"] == ["72"]  # the paper's 9 groups of 8


def test_a_relative_path_is_one_of_the_command_s_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base").mkdir()
    model, board = "--actor.model_name_or_path", "--logger.tensorboard_dir"
    full = complete(SETTINGS, {model: ["base"], "--ckpt.path": ["runs/checkpoints"], board: ["board"]})
    assert full[model] == [str(tmp_path / "base")]
    assert full["--ckpt.path"] == [f"{tmp_path}/runs/checkpoints"]
    assert full[board] == [str(tmp_path / "board")]
    assert full["--ckpt.output_dir"] == [str(tmp_path / "ckpt")]  # OpenRLHF's default
    assert board not in complete(SETTINGS, {})
    assert complete(SETTINGS, {model: ["Qwen/Qwen3-8B"]})[model] == ["Qwen/Qwen3-8B"]


def test_settings_that_workers_read_have_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "problems.jsonl").touch()
    (tmp_path / "two").mkdir()
    (tmp_path / "aime25").mkdir()  # a name is a name, whatever lies here
    settings = TeamSettings(
        env=SETTINGS.env, record="record", problem_set="problems.jsonl", eval_set="aime25",
        problem_options={"licence": "two"}, eval_problem_options={"source": "two"},
        policies={"one": "Qwen/Qwen3-8B", "two": "two"},
    )  # fmt: skip
    here = resolved(settings, {})
    assert (here.record, here.problem_set) == (str(tmp_path / "record"), str(tmp_path / "problems.jsonl"))
    assert here.eval_set == "aime25"
    assert here.problem_options == {"licence": "two"}
    assert here.eval_problem_options == {"source": str(tmp_path / "two")}
    assert here.policies == {"one": "Qwen/Qwen3-8B", "two": str(tmp_path / "two")}
    assert resolved(SETTINGS, {}) == SETTINGS


LEVEL, MODE, GATING = (f"--algo.advantage.is_correction_{name}" for name in ("level", "mode", "gating"))
GSPO = {"--actor.policy_loss_type": ["gspo"]}


@pytest.mark.parametrize(
    ("changes", "given", "level", "mode", "cap"),
    [
        ({}, {}, ["token"], ["clip"], None),
        ({}, GSPO, None, None, 2.0),
        ({"staleness": 1}, GSPO, None, None, 2.0),
        ({"tis_cap": 3.0}, GSPO, None, None, 3.0),
        ({"tis_cap": 3.0}, {}, None, None, 3.0),
        ({}, {**GSPO, LEVEL: ["token"]}, ["token"], None, None),  # the ratio to the policy that sampled
        ({}, {LEVEL: ["seq"]}, ["seq"], None, None),  # clip and seq exclude each other
        ({}, {GATING: ["tv"]}, ["token"], None, None),  # the default, mask
    ],
)
def test_correction(changes, given, level, mode, cap):
    settings = resolved(SETTINGS.model_copy(update=changes), given)
    full = complete(settings, given)
    assert (full.get(LEVEL), full.get(MODE), settings.tis_cap) == (level, mode, cap)


def test_segments_continue_without_reading_their_prompts_again():
    settings = SETTINGS.model_copy(update={"segment_tokens": 512})
    assert complete(settings, {})["--vllm.enable_prefix_caching"] == []
    assert "--vllm.enable_prefix_caching" not in complete(SETTINGS, {})


def test_an_evaluation_has_limits_of_its_own():
    args = S(rollout=S(max_new_tokens=4096, temperature=0.85), eval=S(temperature=0.6), data=S(max_len=8192))
    settings = SETTINGS.model_copy(update={"eval_max_tokens": 1024})
    assert sampling_of(settings, args).max_tokens == 4096
    assert sampling_of(settings, args).temperature == 0.85
    assert sampling_of(settings, args, evaluation=True).max_tokens == 1024
    assert sampling_of(settings, args, evaluation=True).temperature == 0.6
    assert sampling_of(SETTINGS, args, evaluation=True).max_tokens == 4096
