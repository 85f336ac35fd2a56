import asyncio
from dataclasses import replace

import pytest

import mars_env
from mars_env.envs import make_game, spec
from mars_env.envs.tree_search import tree_search
from mars_env.errors import ConfigError
from mars_env.players import assign_agents
from mars_env.rollout import Job, groups_of, play
from mars_env.rollout.engine import at_most
from mars_env.rollout.rewarding import regrade
from mars_env.testing import check_game
from mars_env.types import Action, Grade, Problem

PROBLEM = Problem("p", "What is 2 + 2?", "4")


class Length:
    """Right if the text has as many letters as the reference says; a part of the score for each letter."""

    async def grade(self, problem, text):
        wanted = int(problem.reference)
        if "unknown" in text:
            return Grade.unknown("the grader was lost")
        score = min(len(text), wanted) / wanted
        return (
            Grade.correct() if score == 1 else Grade.wrong("too short", score=score, feedback=f"{score:.2f}")
        )


class HalfLength:
    """What a search may see: it gets no reference, and takes two letters for enough."""

    async def grade(self, problem, text):
        assert problem.reference is None
        if len(text) == 3:
            return Grade.unknown("no verdict")
        return Grade.wrong("no proof", score=min(len(text), 2) / 2, feedback=f"{len(text)} letters", tokens=7)


def longer(observation):
    return observation["solution"] + "x"


def game_of(**settings):
    return make_game(replace(spec("arithmetic-tree-search", **settings), grader=Length()))


def played(game, agent=longer, seed=0, **kwargs):
    agents = assign_agents(game.rules, agent)
    return asyncio.run(play(game, agents, Job(PROBLEM), seed=seed, **kwargs))


@pytest.mark.parametrize(
    "settings", [{"schedule": "training"}, {"agents": 3, "nodes": 9}, {"feedback": False, "nodes": 9}]
)
def test_the_rules_keep_the_contract(settings):
    check_game(tree_search, PROBLEM, settings=settings, episodes=10)


def test_an_observation_is_one_node():
    game = game_of(schedule="training")
    seen = []

    def agent(observation):
        seen.append(dict(observation))
        return longer(observation)

    tree = played(game, agent)
    assert len(tree.turns) == len(seen) == 8
    by_id = {turn.id: turn for turn in tree.turns}
    by_call = sorted(tree.turns, key=lambda turn: turn.info["call"])
    assert {s["mode"] for s in seen} == {"generate", "refine"}
    for turn, observation in zip(by_call, seen, strict=True):
        parent = by_id.get(turn.parent_id)
        assert observation["problem"] == PROBLEM.statement and observation["kind"] == "math"
        assert observation["mode"] == turn.info["mode"] == ("refine" if parent else "generate")
        assert observation["solution"] == (parent.text if parent else "")
        assert observation["feedback"] == (parent.info.get("feedback", "") if parent else "")
        assert turn.id.count(".") == turn.info["depth"] - 1


def test_in_training_both_scores_are_the_grade():
    tree = played(game_of(schedule="training", agents=2))
    assert all(turn.reward == turn.search_score == turn.grade.score for turn in tree.turns)
    assert {turn.agent for turn in tree.turns} == {"solver_0", "solver_1"}
    (group,) = groups_of([tree])  # all nodes of the tree, of all agents, are compared with each other
    assert group.id == tree.id and group.turns == tree.turns


def test_the_tree_depends_neither_on_width_nor_speed():
    def timeless(tree):
        return [(t.id, t.agent, t.text, t.search_score, t.info) for t in tree.turns], tree.final

    class Sleepy:
        policy = "sleepy"

        async def act(self, observation, n, seed):
            await asyncio.sleep(seed % 7 / 1000)
            return [Action(longer(observation) + "y" * (seed % 2))]

    game = game_of(search_grader=HalfLength(), nodes=24, agents=2, early_stop=False)
    trees = [timeless(played(game, Sleepy(), gate=at_most(width))) for width in (1, 2, 64)]
    assert trees[0] == trees[1] == trees[2]
    assert timeless(played(game, Sleepy(), seed=1)) != trees[0]


def test_the_environment_plays_the_same_tree_as_the_engine():
    env = mars_env.make("arithmetic-tree-search", schedule="training", agents=2, wave=3, grader=Length())
    env.reset(seed=3, options={"problem": PROBLEM})
    for _ in env.agent_iter():
        observation, _, over, _, _ = env.last()
        env.step(None if over else longer(observation))
    engine = played(env.game, seed=env.tree_seed)
    shown = [
        (t.id, t.agent, t.text, t.reward, t.group_id) for t in sorted(env.tree.turns, key=lambda t: t.id)
    ]
    assert shown == [(t.id, t.agent, t.text, t.reward, t.group_id) for t in engine.turns]
    assert env.tree.final == engine.final is not None


def test_grading_again_leaves_what_a_test_time_search_saw():
    game = game_of(search_grader=HalfLength(), nodes=10)
    tree = played(game)
    again = asyncio.run(regrade(tree, game))
    assert [t.search_score for t in again.turns] == [t.search_score for t in tree.turns]
    trained = played(game_of(schedule="training"))
    other = make_game(replace(spec("arithmetic-tree-search", schedule="training"), grader=Always()))
    assert {t.reward for t in asyncio.run(regrade(trained, other)).turns} == {1.0}


class Always:
    async def grade(self, problem, text):
        return Grade.correct()


@pytest.mark.parametrize(
    "settings",
    [
        {"agents": 0},
        {"algorithm": "hill-climbing"},
        {"options": {"nothing": 1}},
        {"algorithm": "uct", "depth_decay": 0.98},
        {"sees": "verifier"},
    ],
)
def test_bad_settings_get_one_sentence(settings):
    with pytest.raises(ConfigError):
        mars_env.make("arithmetic-tree-search", **settings)
