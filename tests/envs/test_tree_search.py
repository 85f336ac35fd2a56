import asyncio
from dataclasses import replace

import pytest
from messages import raises

import mars_env
from mars_env.envs import make_game, spec
from mars_env.envs.selection import Vote
from mars_env.envs.tree_search import TRAINING, TreeSearch
from mars_env.errors import ConfigError
from mars_env.players import assign_agents
from mars_env.rollout import Job, groups_of, play
from mars_env.rollout.engine import at_most
from mars_env.rollout.rewarding import regrade
from mars_env.testing import check_env, check_rules
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


@pytest.mark.parametrize("settings", [{"schedule": "training"}, {"agents": 3}, {"feedback": False}])
def test_rules_and_environment_keep_the_contracts(settings):
    check_rules(TreeSearch.from_settings(**settings), PROBLEM)
    check_env(lambda **kwargs: mars_env.make("arithmetic-tree-search", **kwargs, **settings), cycles=3)


def test_agents_are_named_by_the_kind_of_problem():
    code = Problem("c", "Echo.", {"tests": [{"public": True}]}, "code")
    assert mars_env.make("aime-tree-search", agents=2).possible_agents == ["solver_0", "solver_1"]
    assert mars_env.make("aime-tree-search", agents=2, problems=[code]).possible_agents == [
        "coder_0",
        "coder_1",
    ]


def test_an_observation_is_one_node():
    game = game_of(schedule="training")
    seen = []

    def agent(observation):
        seen.append(dict(observation))
        return longer(observation)

    tree = played(game, agent)
    assert len(tree.turns) == len(seen) == TRAINING.nodes
    by_id = {turn.id: turn for turn in tree.turns}
    by_call = sorted(tree.turns, key=lambda turn: turn.info["call"])
    assert {s["mode"] for s in seen} == {"generate", "refine"}
    for turn, observation in zip(by_call, seen, strict=True):
        parent = by_id.get(turn.parent_id)
        assert observation["problem"] == PROBLEM.statement and observation["kind"] == "math"
        assert observation["mode"] == turn.info["mode"] == ("refine" if parent else "generate")
        assert observation["solution"] == (parent.text if parent else "")
        assert observation["feedback"] == (parent.info.get("feedback", "") if parent else "")
        assert observation["depth"] == turn.id.count(".") == turn.info["depth"] - 1


def test_feedback_can_be_switched_off():
    seen = []

    def agent(observation):
        seen.append(observation["feedback"])
        return longer(observation)

    played(game_of(schedule="training", feedback=False), agent)
    assert set(seen) == {""}
    played(game_of(schedule="training"), agent)
    assert set(seen) != {""}


def test_in_training_both_scores_are_the_grade():
    tree = played(game_of(schedule="training", agents=2))
    assert all(turn.reward == turn.search_score == turn.grade.score for turn in tree.turns)
    assert {turn.agent for turn in tree.turns} == {"solver_0", "solver_1"}
    (group,) = groups_of([tree])  # all nodes of the tree, of all agents, are compared with each other
    assert group.id == tree.id and group.turns == tree.turns


def test_in_evaluation_the_reward_is_the_search_score():
    tree = played(game_of(search_grader=HalfLength(), nodes=20, early_stop=False))
    known = [turn for turn in tree.turns if len(turn.text) != 3]
    assert all(turn.reward == turn.search_score == min(len(turn.text), 2) / 2 for turn in known)
    assert any(turn.search_score != turn.grade.score for turn in known)
    assert all(turn.info["search_tokens"] == 7 for turn in known)


def test_what_the_search_cannot_judge_is_lost_to_it():
    tree = played(game_of(search_grader=HalfLength(), nodes=40, early_stop=False, algorithm="uct"))
    lost = {turn.id for turn in tree.turns if turn.search_score is None}
    assert lost and lost == {turn.id for turn in tree.turns if len(turn.text) == 3}
    assert all(turn.reward is None and turn.info["search_unknown"] == "no verdict" for turn in tree.turns
               if turn.id in lost)  # fmt: skip
    assert not any(turn.parent_id in lost for turn in tree.turns)
    assert len(tree.turns) == 40


def test_an_unknown_grade_is_lost_in_training():
    tree = played(game_of(schedule="training"), lambda observation: "unknown")
    assert all(turn.reward is None and turn.parent_id is None for turn in tree.turns)
    assert tree.final is None


def test_early_stop_looks_at_the_search_score():
    stopped = played(game_of(search_grader=HalfLength(), wave=1, algorithm="refinement"))
    assert [turn.text for turn in stopped.turns] == ["x", "xx"]
    assert stopped.final == "0.0" and stopped.turns[-1].grade.score < 1


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


def test_as_completed_keeps_a_wave_under_way():
    most = now = 0

    class Counting:
        policy = "counting"

        async def act(self, observation, n, seed):
            nonlocal most, now
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.001)
            now -= 1
            return [Action(longer(observation))]

    tree = played(game_of(search_grader=HalfLength(), nodes=15, wave=3, as_completed=True), Counting())
    assert most == 3 and len({turn.id for turn in tree.turns}) == len(tree.turns) <= 15


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


def test_a_lost_agent_ends_the_tree_without_an_answer():
    calls = 0

    def failing(observation):
        nonlocal calls
        calls += 1
        if calls == 6:
            raise ConnectionError("the server went away")
        return longer(observation)

    tree = played(game_of(schedule="training", wave=2), failing)
    assert "the server went away" in tree.fault and tree.final is None
    assert len(tree.turns) == 5 and calls == 6


def test_token_budget_counts_the_judge():
    tree = played(
        game_of(search_grader=HalfLength(), tokens=20, wave=1, early_stop=False, algorithm="best-of-n")
    )
    assert len(tree.turns) == 3  # 7 tokens each


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


def test_depth_decay_makes_deeper_trees():
    def depth(**settings):
        game = game_of(search_grader=HalfLength(), nodes=40, wave=1, early_stop=False, **settings)
        trees = [played(game, lambda o: "xxxx", seed=seed) for seed in range(10)]
        return sum(turn.id.count(".") for tree in trees for turn in tree.turns)

    assert depth(depth_decay=0.9) > 1.1 * depth()


@pytest.mark.parametrize(
    "settings",
    [
        {"schedule": "fast"},
        {"nodes": 0},
        {"agents": 0},
        {"algorithm": "hill-climbing"},
        {"options": {"nothing": 1}},
        {"algorithm": "uct", "depth_decay": 0.98},
        {"final": "reward-model"},
        {"sees": "verifier"},
        {"sees": "public"},
        {"schedule": "t-plus"},
        {"rounds": 2},
    ],
)
def test_bad_settings_get_one_sentence(settings):
    with raises(ConfigError):
        mars_env.make("arithmetic-tree-search", **settings)


def test_the_default_for_mathematics_is_a_vote():
    assert isinstance(mars_env.make("aime-tree-search").game.visibility.selection, Vote)
