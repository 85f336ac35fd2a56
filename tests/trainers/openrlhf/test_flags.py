"""What the launcher refuses, and which of OpenRLHF's flags it gives itself."""

from types import SimpleNamespace as S

import pytest

from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.flags import REFUSED, complete, dataset_path, refuse
from mars_env.trainers.openrlhf.settings import TeamSettings

SETTINGS = TeamSettings(env="arithmetic-solve-verify-correct", options={"schedule": "training"})


def arguments(**changes):
    """OpenRLHF's arguments, as far as the launcher looks at them."""
    args = S(
        ds=S(lora=S(rank=0)),
        algo=S(advantage=S(estimator="reinforce"), kl=S(init_coef=0.0, use_loss=False)),
        rollout=S(top_p=1.0, max_new_tokens=64),
        train=S(async_queue_size=1, async_enable=False, enable_ema=False),
        vllm=S(enable_sleep=False, num_engines=1),
    )
    for path, value in changes.items():
        *groups, name = path.split("__")
        at = args
        for group in groups:
            at = getattr(at, group)
        setattr(at, name, value)
    return args


def test_what_is_right_is_not_refused():
    refuse(SETTINGS, arguments())
    refuse(SETTINGS, arguments(algo__kl__init_coef=0.001, algo__kl__use_loss=True))
    refuse(SETTINGS.model_copy(update={"staleness": 1}), arguments(train__async_enable=True))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"ds__lora__rank": 8}, r"LoRA with vLLM fails in OpenRLHF 0\.11\.2 \(its issue 1349"),
        ({"algo__advantage__estimator": "rloo"}, "--mars.advantage"),
        ({"algo__kl__init_coef": 0.01}, "add --algo.kl.use_loss"),
        ({"rollout__top_p": 0.9}, "--rollout.top_p"),
        ({"train__async_queue_size": 2}, "--mars.staleness"),
        ({"train__async_enable": True}, "needs --mars.staleness 1"),
        ({"vllm__num_engines": 0}, "--vllm.num_engines"),
        ({"train__enable_ema": True}, "--train.enable_ema"),
    ],
)
def test_what_would_go_wrong_is_refused_in_one_sentence(changes, sentence):
    with pytest.raises(ConfigError, match=sentence) as refused:
        refuse(SETTINGS, arguments(**changes))
    assert "\n" not in str(refused.value)


def test_engines_that_sleep_roll_nothing_out_meanwhile():
    settings = SETTINGS.model_copy(update={"staleness": 1})
    with pytest.raises(ConfigError, match=r"set --mars\.staleness 0"):
        refuse(settings, arguments(vllm__enable_sleep=True))


def test_the_penalty_s_limit_is_that_of_the_completions():
    settings = TeamSettings(env=SETTINGS.env, overlong={"limit": 100, "buffer": 10})
    with pytest.raises(
        ConfigError, match=r"is 100 tokens, but completions end at --rollout.max_new_tokens 64"
    ):
        refuse(settings, arguments())


@pytest.mark.parametrize("flag", sorted(REFUSED))
def test_flags_that_would_do_nothing_or_harm_are_refused(flag):
    with pytest.raises(ConfigError, match=f"{flag} is refused"):
        complete(SETTINGS, [f"{flag}=1"])


def test_openrlhf_gets_what_the_team_decides_and_its_users_keep_what_they_set(tmp_path):
    flags = ["--ckpt.path", str(tmp_path), "--algo.kl.init_coef=0.001"]
    full = complete(SETTINGS.model_copy(update={"eval_problems": 3}), flags)
    assert full[:3] == flags
    assert "--algo.kl.init_coef" not in full[3:]
    assert full[full.index("--rollout.n_samples_per_prompt") + 1] == "72"  # the paper's 9 groups of 8
    assert full[full.index("--data.prompt_dataset") + 1] == str(tmp_path / "mars" / "problems.jsonl")
    assert full[full.index("--eval.dataset") + 1] == str(tmp_path / "mars" / "evaluation.jsonl")


def test_the_problems_lie_beside_the_checkpoints(tmp_path):
    assert dataset_path([f"--ckpt.path={tmp_path}"], "problems").parent == tmp_path / "mars"
