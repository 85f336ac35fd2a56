"""What a run file names: games, problems, and who acts with which weights."""

import pytest

from mars_env.errors import ConfigError
from mars_env.trainers.assembly import (
    checkpoints_of,
    evaluation_game,
    evaluation_problems,
    evaluation_sampling,
    most_rows,
    rows_per_tree,
    training_game,
    training_problems,
    training_spec,
)
from mars_env.trainers.recipes import MARS2, MARSRL
from mars_env.trainers.tables import TeamSettings

NAMES = ["solver_0", "verifier_0", "corrector_0"]
CHAIN = MARSRL.with_(environment={"id": "arithmetic-solve-verify-correct"})
SEARCH = MARS2.with_(environment={"id": "programs-tree-search"})


def test_rows_of_a_tree_and_of_an_update():
    assert rows_per_tree(training_game(CHAIN), CHAIN.rollouts) == 72  # MarsRL's
    small = CHAIN.with_(rollouts={"group": 4, "branches": 1}, problems_per_step=3)
    assert (rows_per_tree(training_game(small), small.rollouts), most_rows(small)) == (20, 60)
    pipelined = small.with_(pipeline={"staleness": 1, "groups_per_update": 7})
    assert most_rows(pipelined) == 28
    assert rows_per_tree(training_game(SEARCH), None) == 8


def test_an_evaluation_takes_no_more_turns_than_training_unless_the_file_says_so():
    run = CHAIN.with_(evaluation={"every": 1, "limit": 3})
    assert evaluation_game(run).rules.max_turns == training_game(run).rules.max_turns == 5
    assert evaluation_game(run.with_(evaluation={"settings": {"rounds": 2}})).rules.max_turns == 6
    assert evaluation_game(run.with_(evaluation={"settings": {}})).rules.max_turns == 22
    limits = run.with_(evaluation={"max_tokens": 16, "temperature": 0.5})
    assert (evaluation_sampling(limits).max_tokens, evaluation_sampling(limits).temperature) == (16, 0.5)
    assert evaluation_sampling(run) == run.sampling


def test_training_and_evaluation_take_their_own_problems():
    run = CHAIN.with_(
        environment={"limit": 5, "problem_options": {"split": "train", "seed": 1}},
        evaluation={"every": 2, "limit": 3, "problem_options": {"split": "test", "seed": 1}},
    )
    trained = {problem.id for problem in training_problems(run)}
    evaluated = {problem.id for problem in evaluation_problems(run)}
    assert (len(trained), len(evaluated)) == (5, 3)
    assert not trained & evaluated
    assert len(evaluation_problems(CHAIN)) == 0
    with pytest.raises(ConfigError):
        training_problems(MARSRL.with_(environment={"id": "gsm8k-solve"}))


def test_a_search_has_as_many_agents_as_models_unless_its_settings_say_otherwise():
    two = SEARCH.with_(team={"model": ["a", "b"]}, evaluation={"every": 1, "settings": {}})
    assert training_spec(two).settings["agents"] == 2
    assert len(evaluation_game(two).rules.possible_agents) == 2
    three = two.with_(environment={"settings": {"agents": 3}}, team={"model": "a"})
    assert len(training_game(three).rules.possible_agents) == 3
    assert len(evaluation_game(three).rules.possible_agents) == 3


@pytest.mark.parametrize(
    ("team", "policies"),
    [
        ({"model": "a"}, ["policy", "policy", "policy"]),
        ({"model": "a", "lora": 4}, NAMES),
        ({"model": ["a", "b", "c"]}, NAMES),
        ({"model": {"solver": "a", "verifier,corrector_0": "b"}}, ["solver", *["verifier-corrector_0"] * 2]),
        ({"model": {"solver,verifier,corrector": "a"}, "lora": 4}, ["solver-verifier-corrector"] * 3),
    ],
)
def test_policies(team, policies):
    assigned = checkpoints_of(TeamSettings(**team), NAMES)
    assert [assigned[name][0] for name in NAMES] == policies
    others = checkpoints_of(TeamSettings(model=["a", "b"], others={"solver": "scripted:42"}), NAMES)
    assert others == {"verifier_0": ("verifier_0", "a"), "corrector_0": ("corrector_0", "b")}


@pytest.mark.parametrize(
    "model",
    [
        None,
        ["a", "b"],
        {"solver": "a"},
        {"solver": "a", "verifier": "b", "corrector": "c", "judge": "d"},
        {"solver": "a", "solver_0": "b", "verifier,corrector": "c"},
    ],
)
def test_misfits(model):
    with pytest.raises(ConfigError):
        checkpoints_of(TeamSettings(model=model), NAMES)
