"""Every id that `list_envs` names passes PettingZoo's tests; real sets on local files of their schema."""

import json

import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from hub_rows import CODE, MATHEMATICS
from messages import raises
from rows import write_rows

import mars_env
from mars_env import load_problems
from mars_env.envs import spec
from mars_env.errors import ConfigError, MarsError
from mars_env.testing import check_env, check_rules


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """Problems of a set by name, without a network: real sets from rows of their schema."""
    rows = MATHEMATICS | {name: [row] for name, row in CODE.items()}
    folder = tmp_path_factory.mktemp("hub")

    def load(name):
        if name == "livecodebench":
            (folder / "test.jsonl").write_text(json.dumps(CODE["livecodebench, call"]))
            return load_problems(name, source=folder, release="v1")
        if name not in rows:
            return None
        return load_problems(name, source=write_rows(folder / f"{name}.jsonl", rows[name]))

    return load


@pytest.mark.parametrize("env_id", mars_env.list_envs())
def test_every_id_passes_pettingzoos_tests(env_id, local):
    problems = local(spec(env_id).problems)
    check_env(lambda **kwargs: mars_env.make(env_id, problems=problems, **kwargs), cycles=8)


@pytest.mark.parametrize("rules", sorted({spec(env_id).rules for env_id in mars_env.list_envs()}))
def test_every_rules_keep_the_contract(rules):
    env = mars_env.make("reports-spell" if rules == "spell" else f"arithmetic-{rules}")
    check_rules(env.game.rules, env.problems[0], episodes=20)


@pytest.mark.parametrize("learner", ["solver_0", "verifier_0", "corrector_0"])
def test_the_gymnasium_view_passes_gymnasiums_test(learner):
    def judge(observation):
        return "Correctness: Wrong"

    team = {"solver_0": str, "verifier_0": judge, "corrector_0": str}
    env = mars_env.make("aime-solve-verify-correct", schedule="training")
    view = mars_env.as_gymnasium(
        env, learner=learner, partners={name: player for name, player in team.items() if name != learner}
    )
    gymnasium_check_env(view, skip_render_check=True)


@pytest.mark.parametrize(
    ("env_id", "settings"),
    [
        # which one it names depends on what other tests have registered in this process
        ("aime", {}),
        ("solve-verify-correct", {}),
        ("aime-solve-verify-corect", {}),
        ("nothing-solve", {}),
        ("no_such_module:x-solve", {}),
        ("aime-solve", {"rounds": 2}),
        ("aime-solve", {"revisions": -1}),
        ("aime-self-refine", {"revisions": "x"}),
        ("aime-self-refine", {"revisions": True}),
        ("aime-solve-verify-correct", {"rounds": -1}),
        ("aime-solve-verify-correct", {"rounds": "3"}),
        ("aime-solve-verify-correct", {"schedule": 3}),
        ("aime-solve-verify-correct", {"schedul": "training"}),
        ("aime-tree-search", {"nodes": "60"}),
        ("aime-tree-search", {"schedule": 3}),
        ("aime-tree-search", {"agents": True}),
        ("aime-solve-verify-correct", {"schedule": "fast"}),
        ("aime-solve-verify-correct", {"accept_after": 0}),
        ("aime-solve", {"grader": "nowhere:Grader"}),
        ("aime-solve", {"render_mode": "rgb_array"}),
        ("reports-spell", {"grounding": 1}),
        ("reports-spell", {"longest_answer": "40"}),
        ("reports-spell", {"most_characters": True}),
        ("reports-spell", {"rounds": 3}),
        ("reports-solve", {}),
    ],
)
def test_bad_input_gets_one_sentence(env_id, settings):
    with raises(ConfigError) as caught:
        mars_env.make(env_id, **settings)
    told = str(caught.value)
    assert "\n" not in told and "validation error" not in told and "errors.pydantic.dev" not in told


@pytest.mark.parametrize("env_id", ["aime-solve", "aime-solve-verify-correct", "aime-tree-search"])
def test_what_a_message_quotes_is_short_however_long_it_is(env_id):
    long = "x" * 5000
    env = mars_env.make(env_id)
    for refused in (
        lambda: env.reset(options={"problem": long}),
        lambda: mars_env.make(f"{long}-solve"),
        lambda: mars_env.make(env_id, **{long: 1}),
        lambda: mars_env.make(env_id, schedule=long),
        lambda: mars_env.make(env_id, revisions=long, agents=long, public_feedback=long),
    ):
        with pytest.raises(MarsError) as caught:
            refused()
        assert len(str(caught.value)) <= 1000
