"""The flags of the team, and what becomes of them."""

import pytest
from messages import raises

from mars_env.envs import GroupedSettings
from mars_env.errors import ConfigError
from mars_env.trainers.openrlhf.command_line import read_argv
from mars_env.trainers.openrlhf.settings import TeamSettings, as_flags, read_flags

ENV = "arithmetic-solve-verify-correct"
AGENTIC = ["--mars.groups_per_update", "4", "--mars.staleness", "1"]


def test_flags_and_settings_are_one_another():
    settings = TeamSettings(
        env=ENV,
        options={"schedule": "training"},
        problems=7,
        others={"solver": "scripted:42"},
        train_roles=("verifier", "corrector"),
        overlong={"limit": 64, "buffer": 8},
        eval_set="aime",
        staleness=2,
        groups_per_update=16,
        refill=2.5,
        uniform_groups="drop",
        record="run/record",
    )
    again, rest = read_flags({"--a": ["1"], **as_flags(settings), "--b": []})
    assert again == settings
    assert rest == {"--a": ["1"], "--b": []}
    named, _ = read_flags(read_argv([f"--mars.env={ENV}", "--mars.train_roles=solver,corrector"]))
    assert named.train_roles == ("solver", "corrector")


@pytest.mark.parametrize(
    "flags",
    [
        ["--mars.nothing", "1"],
        ["--mars.groop", "1"],
        ["--mars.env"],
        ["--mars.env", ENV, "--mars.seed", "1", "2"],
        ["--mars.env", "--mars.group", "4"],
        ["--mars.group", "4"],
        ["--mars.env", ENV, "--mars.group", "many"],
        ["--mars.env", ENV, "--mars.groups_per_update", "4"],
        ["--mars.env", ENV, *AGENTIC, "--mars.tree_credit", "{}"],
        ["--mars.env", ENV, "--mars.others", "solver"],
        ["--mars.env", ENV, "--mars.refill", "2"],
        ["--mars.env", ENV, *AGENTIC, "--mars.refill", "2"],
        ["--mars.env", ENV, "--mars.dual_clip", "3"],
        ["--mars.env", ENV, "--mars.group", "1"],
    ],
)
def test_a_wrong_flag_is_refused_in_one_sentence(flags):
    with raises(ConfigError):
        read_flags(read_argv(flags))


def test_the_game_grows_in_groups_or_as_its_rules_say():
    grouped = TeamSettings(env=ENV, options={"schedule": "training"}, group=4, branches=1)
    assert grouped.rows_per_tree() == 4 * 5
    assert grouped.groups_per_tree() == 5
    tree = TeamSettings(env="programs-tree-search", options={"schedule": "training"}, grow="own")
    assert tree.rows_per_tree() == 8
    assert tree.groups_per_tree() == 1
    assert GroupedSettings().group == TeamSettings(env=ENV).group


def test_an_evaluation_takes_no_more_turns_than_training_unless_it_is_told_to():
    settings = TeamSettings(env=ENV, options={"schedule": "training"}, eval_problems=3)
    assert settings.evaluation_game().rules.max_turns == settings.game().rules.max_turns == 5
    own = settings.model_copy(update={"eval_options": {"rounds": 2}})
    assert own.evaluation_game().rules.max_turns == 6
    whole = settings.model_copy(update={"eval_options": {}})
    assert whole.evaluation_game().rules.max_turns == 22
    tree = TeamSettings(env="programs-tree-search", options={"schedule": "training"}, eval_problems=3)
    assert tree.evaluation_game().rules.max_turns == tree.game().rules.max_turns == 8
    assert read_flags(as_flags(whole))[0] == whole and read_flags(as_flags(settings))[0] == settings


def test_training_and_evaluation_take_their_own_problems():
    settings = TeamSettings(
        env=ENV,
        problems=5,
        problem_options={"split": "train", "seed": 1},
        eval_problems=3,
        eval_problem_options={"split": "test", "seed": 1},
    )
    with raises(ConfigError):
        TeamSettings(env="gsm8k-solve").training_problems()
    trained = {problem.id for problem in settings.training_problems()}
    evaluated = {problem.id for problem in settings.evaluation_problems()}
    assert (len(trained), len(evaluated)) == (5, 3)
    assert not trained & evaluated
