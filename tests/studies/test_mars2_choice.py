"""The miniature of MARS2's final choice: fewer outputs shown, and a reward model from its own trees."""

import asyncio
import random

import pytest
from messages import raises

from mars_env import load_problems
from mars_env.agents.reward_model import make_reward_model
from mars_env.envs.selection import First
from mars_env.errors import ConfigError
from mars_env.models import HFModel
from studies.common.study import Run
from studies.mars2.experiment import chosen_by, right_within, search, search_figures, train_team, within
from studies.mars2.recipe import Mars2Recipe
from studies.mars2.warm_start import WarmStart, draw, warm_start
from studies.mars2_choice.study import (
    ARM,
    ChoiceRecipe,
    Judged,
    RewardRecipe,
    choice_figures,
    judged,
    left_to_choose,
    train_reward_model,
)

TINY = ChoiceRecipe(
    mars2=Mars2Recipe(
        warm_start=WarmStart(shape=(32, 64, 1), updates=200, rows=64, shown=1, most=1),
        level=(1, 1),
        train_score="fraction",
        steps=2,
        problems_per_step=4,
        problems=8,
        tokens=48,
        cuts=(12,),
        diversity_nodes=4,
    ),
    reward_model=RewardRecipe(problems=12, updates=4, rows=8),
)


@pytest.mark.parametrize(("shown", "inputs"), [(6, (0, 3, 6, 9, 12, 15)), (3, (3, 9, 15)), (1, (15,))])
def test_a_problem_shows_as_many_outputs_as_asked_and_hides_the_others(shown, inputs):
    problem = load_problems("nibbles", registers=2, shown=shown, split="test")[3]
    tests = problem.reference["tests"]
    public = [test["arguments"] for test in tests if test["public"]]
    assert public == [[x, r] for r in (0, 1) for x in inputs]
    assert problem.statement.count("f(") - 1 == len(public)  # the signature has one, too
    assert len(tests) == 32 and len({tuple(test["arguments"]) for test in tests}) == 32


def test_splits_share_no_shown_outputs():
    shown = [
        {load_problems("nibbles", shown=1, split=split)[i].statement for i in range(40)}
        for split in ("train", "test")
    ]
    assert not shown[0] & shown[1]


@pytest.mark.parametrize("shown", [0, 4, 7, -1])
def test_another_number_of_outputs_is_refused(shown):
    with raises(ConfigError):
        load_problems("nibbles", shown=shown)


def programs(count, seed=0):
    """Made-up candidates: right if the second register has no statement."""
    problems = load_problems("nibbles", registers=2, level=(1, 3), shown=3, seed=seed)
    rng, settings = random.Random(seed), WarmStart(shown=3)
    drawn = [draw(rng, 0.5, settings) for _ in range(count)]
    return [Judged(problems[i].statement, pair.program, not pair.v) for i, pair in enumerate(drawn)]


def test_it_learns_what_right_programs_have_in_common_and_is_an_ordinary_checkpoint(tmp_path):
    start = WarmStart(shape=(32, 64, 1), updates=1, rows=4, shown=3)
    warm = HFModel(warm_start(0, 0.5, start), name="g0")
    before = {name: weight.clone() for name, weight in warm.module.state_dict().items()}
    recipe = RewardRecipe(updates=60, rows=32, learning_rate=3e-3)
    model = train_reward_model(warm, programs(300), 5, tmp_path / "a", recipe)
    fresh = programs(80, seed=9)
    ratings = [asyncio.run(model.rate(each.statement, [each.program], 0)).scores[0] for each in fresh]
    right = [r for r, each in zip(ratings, fresh, strict=True) if each.right]
    wrong = [r for r, each in zip(ratings, fresh, strict=True) if not each.right]
    pairs = [r > w for r in right for w in wrong]
    assert sum(pairs) / len(pairs) > 0.9
    assert all((before[name] == weight).all() for name, weight in warm.module.state_dict().items())
    loaded = make_reward_model(f"classifier:{tmp_path / 'a'}")
    again = train_reward_model(warm, programs(300), 5, tmp_path / "b", recipe)
    texts = [each.program for each in fresh[:5]]
    rated = [asyncio.run(m.rate(fresh[0].statement, texts, 0)).scores for m in (model, loaded, again)]
    assert rated[0] == pytest.approx(rated[1], abs=1e-6) and rated[0] == rated[2]


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    cache = tmp_path_factory.mktemp("warm")
    trained = asyncio.run(train_team(ARM["untrained"], 3, TINY.mars2, cache=cache))
    trees = asyncio.run(search(trained, TINY.mars2.searched(), 3, TINY.mars2))
    return trained, trees, cache


def test_what_is_left_to_choose_is_counted_by_hand(team):
    _, trees, _ = team
    expected = {"passed": 0, "several": 0, "open": 0}
    for tree in trees:
        passing = {t.text: t.grade.score == 1.0 for t in tree.turns if t.search_score == 1.0}
        expected["passed"] += bool(passing)
        expected["several"] += len(passing) > 1
        expected["open"] += True in passing.values() and False in passing.values()
    assert left_to_choose(trees) == {name: count / len(trees) for name, count in expected.items()}
    assert expected["several"] > 0, "one output shown must leave several programs"
    programs = judged(trees)
    assert len(programs) == sum(len({t.text for t in tree.turns if t.search_score == 1.0}) for tree in trees)
    assert {each.right for each in programs} == {True, False}


def test_a_stopped_search_is_the_beginning_of_the_whole_one(team):
    _, trees, _ = team
    stopped = within(trees, 12)
    assert all(0 < len(cut.turns) < len(tree.turns) for cut, tree in zip(stopped, trees, strict=True))
    chosen = asyncio.run(chosen_by(First(), stopped))
    assert search_figures(chosen)["pass@1"] == right_within(trees, 12)
    assert [tree.turns for tree in within(trees, 10**6)] == [
        tuple(sorted(tree.turns, key=lambda turn: turn.info["call"])) for tree in trees
    ]


def test_the_figures_repeat_and_no_choice_beats_a_perfect_one(team, tmp_path):
    trained, trees, cache = team
    twice = [
        asyncio.run(choice_figures(ARM["untrained"], trained, Run(3, TINY, cache), tmp_path / name))
        for name in ("a", "b")
    ]
    assert twice[0] == twice[1]
    figures = twice[0]
    assert figures["search_pass@1"] == search_figures(trees)["pass@1"]
    for name in ("vote", "shortest", "learned"):
        assert figures[f"{name}_pass@n"] == figures["search_pass@n"] >= figures[f"{name}_pass@1"]
        assert figures[f"{name}_tokens"] == figures["search_tokens"]
    assert figures["depth_pass@n"] == figures["t-plus_pass@n"] >= figures["t-plus_pass@1"]
    assert figures["learned at 12_tokens"] < figures["learned_tokens"]
    assert figures["taught"] > 0 and 0 <= figures["taught_right"] <= 1
