"""Mistakes that a newcomer makes in a first game: each gets one sentence before it can cost anything."""

import asyncio
from contextlib import suppress

import pytest

import mars_env
from mars_env.agents import RoleAgent
from mars_env.errors import ConfigError, ModelError
from mars_env.types import Action, Grade, Ratings, Sampling

PROBLEM = mars_env.Problem("p", "1+1=", "2")


def paid(turn, path, problem):
    return path[0].grade.score


def two_turns(problem):
    """A solver, then a buyer who says something about it; the solver's text is the team's answer."""
    first = yield mars_env.ask("solver", problem=problem.statement)
    yield mars_env.ask("buyer", problem=problem.statement, quote=first.text, graded=False)
    return first


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
    ("env_id", "parts", "told"),
    [
        ("arithmetic-solve", {"agents": Waits()}, "Waits.act() is not async"),
        ("arithmetic-tree-search", {"reward_model": Waits()}, "Waits.rate() is not async"),
    ],
)
def test_a_method_that_is_not_async_says_so(env_id, parts, told):
    trees = []
    with suppress(ModelError):
        mars_env.evaluate(env_id, **{"agents": lambda seen: "4", **parts}, limit=1, on_tree=trees.append)
    [tree] = trees
    reasons = [tree.fault, *(turn.grade.reason + turn.info.get("search_unknown", "") for turn in tree.turns)]
    assert told in "".join(reasons)


def test_one_game_grades_one_kind_of_problems():
    both = [PROBLEM, mars_env.Problem("c", "Print 2.", {}, "code")]
    with pytest.raises(ConfigError):
        mars_env.make("arithmetic-solve", problems=both)
    with pytest.raises(ConfigError):
        mars_env.make("arithmetic-solve", problems=both[:1]).reset(options={"problem": both[1]})
    env = mars_env.make("arithmetic-solve", problems=both, grader=Waits())  # it may know both
    env.reset(options={"problem": both[1]})


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

    fields, roles = ["problem", "quote"], {"solver": "mars_env.agents:Solver", "buyer": None}
    mars_env.game(max_turns=2, roles=roles, fields=dict.fromkeys(roles, fields), rewards={"buyer": reward})(
        two_turns
    )
    sums = [mars_env.Problem(str(a), f"{a}+1=", str(a + 1)) for a in range(4)]
    env = mars_env.make("arithmetic-two-turns", problems=sums)
    settings = MARSRL.model_copy(update={"steps": 1, "problems_per_step": 2, **changes})

    async def trained():
        models = [tiny_model("0123456789+=")]
        team = make_team(settings, env.possible_agents, models, agent=agent)
        return await train(env.game, team, env.problems, settings)

    with pytest.raises(error):
        asyncio.run(trained())


def test_evaluate_without_agents_names_itself():
    with pytest.raises(TypeError, match=r"^evaluate\(\)"):
        mars_env.evaluate("arithmetic-solve")


def test_last_after_the_end_is_a_sentence():
    env = mars_env.make("arithmetic-solve")
    env.reset(seed=0)
    for _ in env.agent_iter():
        finished = env.last()[2]
        env.step(None if finished else "4")
    with pytest.raises(ConfigError):
        env.last()
