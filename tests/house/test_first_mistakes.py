"""Mistakes that a newcomer makes in a first game: each gets one sentence before it can cost anything."""

import asyncio
import re
from contextlib import nullcontext, suppress

import pytest
from messages import raises
from two_turns import TwoTurns as Game

import mars_env
from mars_env.agents import RoleAgent
from mars_env.envs import register_rules, team_outcome
from mars_env.errors import ConfigError, ModelError
from mars_env.testing import check_grader, check_rules
from mars_env.testing.agent_suite import check_agent
from mars_env.types import Action, Grade, Ratings, Sampling

PROBLEM = mars_env.Problem("p", "1+1=", "2")


def paid(turn, path, problem):
    return path[0].grade.score


def broken(**parts):
    return type("Broken", (Game,), parts)


def playing(rules):
    register_rules("first-mistake", rules, rewards={"buyer": paid})
    return mars_env.evaluate(
        "arithmetic-first-mistake", agents=dict.fromkeys(Game.possible_agents, lambda seen: "4"), limit=1
    )


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"note": None}, "lacks note"),
        ({"note": lambda self, state, action: "nice"}, r"note\(\) .* mapping"),
        ({"submission": lambda self, state, action: action}, r"submission\(\) "),
        ({"final": lambda self, state: "solver_0" if len(state) == 3 else None}, r"final\(\) "),
        ({"final": lambda self, state: 1 if len(state) == 3 else None}, r"final\(\) "),
        ({"current_agent": lambda self, state: "vendor_0"}, "'vendor_0'"),
        ({"current_agent": lambda self, state: "solver_0"}, "max_turns"),
    ],
)
def test_rules_that_break_a_promise(parts, words):
    rules = broken(**parts)
    with pytest.raises(AssertionError, match=words):
        check_rules(rules(), PROBLEM, texts=["2", ""])
    with pytest.raises(ConfigError, match=words):
        playing(rules)


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), object()])
def test_a_note_that_no_run_can_store(value):
    with raises(AssertionError):
        check_rules(broken(note=lambda self, state, action: {"seen": value})(), PROBLEM)


def test_the_game_itself_has_no_fault():
    check_rules(Game(), PROBLEM, texts=["2", ""])
    assert playing(Game).counts.faults == {}


class Waits:
    """All that a user may have written without ``async``."""

    policy = "waits"

    def act(self, observation, n, seed):
        return [Action("4")] * n

    def grade(self, problem, text):
        return Grade.correct()

    def rate(self, statement, texts, seed):
        return Ratings((0.5,) * len(texts))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"env_id": "arithmetic-solve", "agents": Waits()}, r"Waits.act\(\) is not async"),
        ({"env_id": "arithmetic-solve", "grader": Waits()}, r"Waits.grade\(\) is not async"),
        ({"env_id": "arithmetic-tree-search", "reward_model": Waits()}, r"Waits.rate\(\) is not async"),
    ],
)
def test_a_method_that_is_not_async_says_so(given, told):
    trees = []
    with suppress(ModelError):
        mars_env.evaluate(**{"agents": lambda seen: "4", **given}, limit=1, on_tree=trees.append)
    [tree] = trees
    reasons = [tree.fault, *(turn.grade.reason + turn.info.get("search_unknown", "") for turn in tree.turns)]
    assert any(re.search(told, reason) for reason in reasons), reasons


def test_the_suites_find_methods_that_are_not_async():
    with raises(AssertionError):
        asyncio.run(check_agent(Waits(), {"problem": "2 + 2?"}))
    with raises(AssertionError):
        check_grader(Waits(), PROBLEM, "2", "3")


def test_rules_are_played_without_grades_too():
    def until_right(self, state, action, grade):
        return (*state, "done" if grade and grade.verdict == "CORRECT" else action.text)

    def assuming_a_grade(self, state, action, grade):
        return (*state, "done" if len(state) == 1 and grade.verdict == "CORRECT" else action.text)

    hidden = {"observe": lambda self, state, agent: {"problem": state[0].statement, "quote": ""}}
    check_rules(broken(apply=until_right, **hidden)(), PROBLEM)
    with raises(AssertionError):
        check_rules(broken(apply=assuming_a_grade, **hidden)(), PROBLEM)


@pytest.mark.parametrize(
    ("name", "fits"),
    [("proof_writer_0", True), ("GPT5_1", True), ("writer", False), ("proof writer_0", False)],
)
def test_an_agent_is_named_by_its_role_and_a_number(name, fits):
    with nullcontext() if fits else pytest.raises(AssertionError, match="its role and a number"):
        check_rules(broken(possible_agents=(name, "buyer_0"))(), PROBLEM)


@pytest.mark.parametrize("values", [(3, "2 + 2?", "4"), ("p", None, "4")])
def test_a_problem_that_no_stored_run_could_be_read_with(values):
    with raises(ValueError):
        mars_env.Problem(*values)


def test_one_game_grades_one_kind_of_problems():
    both = [PROBLEM, mars_env.Problem("c", "Print 2.", {}, "code")]
    with raises(ConfigError):
        mars_env.make("arithmetic-solve", problems=both)
    with raises(ConfigError):
        mars_env.make("arithmetic-solve", problems=both[:1]).reset(options={"problem": both[1]})
    env = mars_env.make("arithmetic-solve", problems=both, grader=Waits())  # it may know both
    env.reset(options={"problem": both[1]})


def test_a_class_is_no_object_and_an_object_no_class():
    with raises(AssertionError):
        check_rules(Game, PROBLEM)
    with raises(ConfigError):
        register_rules("first-mistake", Game())


@pytest.mark.parametrize(
    "rewards", [[paid], {"buyer": lambda turn, path: 1.0}, {"byer": paid}, {"buyer_0": paid}]
)
def test_rewards_that_fit_nothing(rewards):
    with raises(ConfigError):
        register_rules("first-mistake", Game, rewards=rewards)
        mars_env.make("arithmetic-first-mistake")


def test_rules_bring_a_team_reward_of_their_own():
    with pytest.raises(ConfigError):
        register_rules("first-mistake", Game, team_reward=lambda tree, problem: {})
    register_rules("first-mistake", Game, rewards={"buyer": paid}, team_reward=team_outcome)
    assert mars_env.make("arithmetic-first-mistake").game.team_reward is team_outcome


def player(prompt="{{ problem }}{{ quote }}", **sampling):
    """A function that gives each agent this prompt."""
    return lambda name, model: RoleAgent(model, prompt=prompt, sampling=Sampling(max_tokens=1, **sampling))


MISNAMING = player("{{ problem }}{{ price }}")


def raising(turn, path, problem):
    return turn.info["nope"]


@pytest.mark.parametrize(
    ("reward", "agent", "changes", "error"),
    [
        (raising, player(), {}, ConfigError),
        (paid, MISNAMING, {}, ModelError),
        (paid, MISNAMING, {"problems_per_step": 1}, ModelError),
        (paid, player(temperature=0.0), {}, ConfigError),
        (paid, lambda model: None, {}, ConfigError),
        (paid, lambda name, model: print, {}, ConfigError),
        (paid, player(), {"step": 3}, ConfigError),
        (paid, player(), {"steps": "many"}, ConfigError),
    ],
    ids=["reward", "prompt", "one tree", "greedy", "arguments", "no agent", "name", "value"],
)
def test_a_training_that_would_train_nothing(reward, agent, changes, error):
    pytest.importorskip("torch", reason="training needs torch: pip install 'mars-env[hf]'")
    from mars_env.models import tiny_model
    from mars_env.trainers import MARSRL, make_team, train

    register_rules("first-mistake", Game, rewards={"buyer": reward})
    sums = [mars_env.Problem(str(a), f"{a}+1=", str(a + 1)) for a in range(4)]
    env = mars_env.make("arithmetic-first-mistake", problems=sums)
    settings = MARSRL.model_copy(update={"steps": 1, "problems_per_step": 2, **changes})

    async def trained():
        models = [tiny_model("0123456789+=")]
        team = make_team(settings, env.possible_agents, models, agent=agent)
        return await train(env.game, team, env.problems, settings)

    with raises(error):
        asyncio.run(trained())
