import pytest

import mars_env
from mars_env.envs import team_outcome
from mars_env.errors import ConfigError
from mars_env.types import Grade, Problem

PROBLEM = Problem("p", "What is 2 + 2?", "4")
WRONG, RIGHT = "Correctness: Wrong", "Correctness: Correct"


def make(**settings):
    env = mars_env.make("arithmetic-solve-verify-correct", schedule="training", **settings)
    env.reset(seed=0, options={"problem": PROBLEM})
    return env


def test_the_papers_rewards_go_to_the_agent_that_acted():
    env = make()
    expected = [("\\boxed{5}", 0.0), (WRONG, 1.0), ("\\boxed{4}", 1.0), (WRONG, 0.0), ("\\boxed{4}", 1.0)]
    for text, reward in expected:
        agent = env.agent_selection
        env.step(text)
        assert env.rewards[agent] == reward
        assert sum(map(abs, env.rewards.values())) == reward
    assert all(env.terminations.values())
    assert env.tree.final == "0.0.0.0.0"


def test_a_team_reward_is_given_at_the_end():
    for texts, reward in ((["\\boxed{5}"], 0.0), (["\\boxed{5}", WRONG, "\\boxed{4}"], 1.0)):
        env = make(team_reward=team_outcome)
        for text in texts:
            env.step(text)
        assert env._cumulative_rewards["solver_0"] == 0.0
        env.step(RIGHT)
        assert {turn.reward for turn in env.tree.turns} == {reward}
        assert env._cumulative_rewards["solver_0"] == reward


def test_problems_are_drawn_reproducibly_or_chosen():
    first, second = mars_env.make("aime-solve"), mars_env.make("aime-solve")
    for env in (first, second):
        env.reset(seed=3)
    assert first.problem == second.problem
    first.reset()
    assert first.problem != second.problem
    first.reset(options={"problem": first.problems[7].id})
    assert first.problem.id == first.problems[7].id
    with pytest.raises(ConfigError):
        first.reset(options={"problem": "nowhere"})


SECRET = "SECRET-4711"


class Quotes:
    async def grade(self, problem, text):
        return Grade.unknown(f"{problem.reference} cannot be read")


def quotes(turn, path, problem):
    raise ValueError(problem.reference)


@pytest.mark.parametrize("settings", [{}, {"nodes": 2, "oracle": True}], ids=["solve", "search"])
@pytest.mark.parametrize("part", [{"grader": Quotes()}, {"rewards": {"solver": quotes}}])
def test_no_info_quotes_the_reference(part, settings):
    rules = "tree-search" if settings else "solve"
    problems = [Problem("p", "What is it?", SECRET)]
    env = mars_env.make(f"arithmetic-{rules}", problems=problems, **part, **settings)
    env.reset(seed=0)
    env.step("5")
    [turn] = env.tree.turns
    assert SECRET in repr(turn) and turn.reward is None  # the record says why
    assert env.infos["solver_0"]["reward_unknown"] and SECRET not in repr(env.infos)
