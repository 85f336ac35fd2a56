"""The papers' recipes: their numbers, the rules that name them, settings that contradict each other."""

from dataclasses import replace

import pytest
from pydantic import ValidationError

from mars_env.envs import EnvSpec, GameFunction, GroupedSettings, solve, spec
from mars_env.errors import ConfigError
from mars_env.identity import settings_identity
from mars_env.trainers.config import Overlong
from mars_env.trainers.recipes import MARS2, MARSRL, RunSettings, checked, recipe_of
from mars_env.types import Sampling

MINE = RunSettings(steps=7)
NOT_A_RECIPE = 7


def test_marsrl_has_the_papers_numbers():
    assert MARSRL.problems_per_step == 128
    assert MARSRL.rollouts == GroupedSettings(group=8, branches=2, sampling="adaptive")
    assert MARSRL.sampling.temperature == 0.85
    assert MARSRL.train.learning_rate == 1e-6 and MARSRL.train.ratio == "token"
    assert MARSRL.train.credit == "marsrl"
    assert MARSRL.pipeline.staleness == 0


def test_mars2_has_the_papers_numbers():
    loss = MARS2.train
    assert (loss.clip, loss.mean) == ((3e-4, 4e-4), "sequence-mean")
    assert loss.model_dump(include={"ratio", "tis_cap", "tis_veto", "kl_coefficient"}) == {
        "ratio": "sequence",
        "tis_cap": 2.0,
        "tis_veto": 1e-4,
        "kl_coefficient": 1e-3,
    }
    assert loss.credit == "mars2"
    assert loss.overlong == Overlong(limit=Sampling().max_tokens, buffer=2048)
    assert loss.tree_credit is None
    assert MARS2.rollouts is None
    with pytest.raises(ValueError):
        loss.kl_coefficient = 0.0
    with pytest.raises(ValueError):
        Overlong(limit=100)


@pytest.mark.parametrize(
    "settings",
    [
        {"pipeline": {"groups_per_update": 4, "staleness": 0}},
        {"pipeline": {"groups_per_update": 4}, "rollouts": None},
        {"pipeline": {"groups_per_update": 4}, "train": {"tree_credit": {}}},
        {"pipeline": {"groups_per_update": 4, "refill": 2}},
        {"train": {"betas": (0.9, 1.0)}},
        {"train": {"aggregation": "sequence-sum"}},
        {"train": {"dmmpt_threshold": 0.99, "ratio": "sequence"}},
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings):
    with pytest.raises(ValidationError):
        RunSettings.model_validate(settings)


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("train", {"learning_rat": 1e-3}),
        ("train", {"learning_rate": -1.0}),
        ("pipeline", {"stalenes": 2}),
        ("rollouts", {"groups": 4}),
    ],
)
def test_a_copy_of_inner_settings_is_checked(part, changes):
    """`model_copy` takes any name: a run would go on with the value that was there before."""
    inner = getattr(MARSRL, part).model_copy(update=changes)
    with pytest.raises(ConfigError):
        checked(MARSRL.model_copy(update={part: inner}))
    assert checked(MARSRL) == MARSRL and checked(MARS2) == MARS2


def test_games_name_their_recipe():
    assert recipe_of(spec("arithmetic-solve-verify-correct")) is MARSRL
    assert recipe_of(spec("arithmetic-self-refine")) is MARSRL
    assert recipe_of(spec("programs-tree-search")) is MARS2
    options = replace(solve.options, recipe=f"{__name__}:MINE")
    assert recipe_of(EnvSpec("arithmetic", GameFunction(solve.function, options))).steps == 7
    options = replace(solve.options, recipe=f"{__name__}:NOT_A_RECIPE")
    with pytest.raises(ConfigError):
        recipe_of(EnvSpec("arithmetic", GameFunction(solve.function, options)))


def test_of_a_run_only_memory_speed_and_length_may_change():
    may_change = settings_identity(RunSettings())["may_change"]
    assert {name: value for name, value in may_change.items() if name != "train"} == {
        "steps": 100,
        "samplers": None,
        "pipeline": {"concurrency": None},
    }
