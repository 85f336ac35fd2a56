"""Wrong values get one sentence, and a copy of an environment goes on by itself."""

import copy
import pickle

import gymnasium
import pytest

import mars_env
from mars_env.errors import ConfigError

TEAM = "arithmetic-solve-verify-correct"


def say_one(observation):
    return r"\boxed{1}"


def evaluate(**options):
    return mars_env.evaluate("arithmetic-solve", **{"agents": say_one, "limit": 1, **options})


WRONG = {
    "no id": lambda: mars_env.make(None),
    "no problems for a game": lambda: mars_env.make("solve-verify-correct"),
    "no such game": lambda: mars_env.make("aime-solve-verify-corect"),
    "no such set": lambda: mars_env.make("nothing-solve"),
    "a set of another game": lambda: mars_env.make("reports-solve"),
    "no such setting": lambda: mars_env.make("aime-solve", rounds=2),
    "a setting of another type": lambda: mars_env.make("aime-tree-search", nodes="60"),
    "a setting that is too small": lambda: mars_env.make(TEAM, accept_after=0),
    "no such schedule": lambda: mars_env.make(TEAM, schedule="fast"),
    "no such grader": lambda: mars_env.make("aime-solve", grader="nowhere:Grader"),
    "no such rendering": lambda: mars_env.make("aime-solve", render_mode="rgb_array"),
    "a list to load": lambda: mars_env.load_problems([{"id": "a"}]),
    "rows": lambda: mars_env.make(TEAM, problems=[{"id": "a"}]),
    "no problems": lambda: mars_env.make(TEAM, problems=[]),
    "rewards=function": lambda: mars_env.make(TEAM, rewards=lambda turn, path, problem: 1.0),
    "a role of rewards": lambda: mars_env.make(TEAM, rewards={"solvr": lambda turn, path, problem: 1.0}),
    "grader=function": lambda: mars_env.make(TEAM, grader=lambda p, t: 1),
    "grower=3": lambda: mars_env.make(TEAM, grower=3),
    "samples='3'": lambda: evaluate(samples="3"),
    "concurrency=True": lambda: evaluate(concurrency=True),
    "turn_timeout=0.0": lambda: evaluate(turn_timeout=0.0),
    "out=3": lambda: evaluate(out=3),
    "on_tree=3": lambda: evaluate(on_tree=3),
    "an agent's role": lambda: evaluate(agents={"solvr": say_one}),
    "register": lambda: mars_env.register("x-y", problems=3, game="solve"),
    "a view of nothing": lambda: mars_env.as_gymnasium(None, learner="solver_0", partners={}),
    "partners=None": lambda: mars_env.as_gymnasium(mars_env.make(TEAM), learner="solver_0", partners=None),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_gets_a_sentence(name):
    with pytest.raises(ConfigError) as raised:
        WRONG[name]()
    message = str(raised.value)
    assert "\n" not in message and "validation error" not in message and "errors.pydantic.dev" not in message


def pickled(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
@pytest.mark.parametrize("env_id", [TEAM, "aime-tree-search", "programs-solve"])
def test_a_copy_of_an_environment_goes_on_by_itself(env_id, copied):
    env = mars_env.make(env_id)
    env.reset(seed=3)
    if env_id != "programs-solve":
        env.step(r"\boxed{4}")
    twin = copied(env)
    agent = env.agent_selection
    twin.step(r"Correctness: Correct \boxed{4}")
    assert env.agent_selection == agent
    assert len(twin.tree.turns) == len(env.tree.turns) + 1
    env.step(r"Correctness: Correct \boxed{4}")
    verdicts = [[turn.grade and turn.grade.verdict for turn in one.tree.turns] for one in (env, twin)]
    assert verdicts[0] == verdicts[1]
    for one in (env, twin):  # the same problems are drawn from here on
        one.reset()
    assert env.problem == twin.problem


def test_gymnasium_makes_environments_and_vectors_of_them():
    env = gymnasium.make(
        f"mars_env/{TEAM}-v0",
        learner="solver_0",
        partners={"verifier": lambda seen: "Correctness: Correct", "corrector": say_one},
        rounds=1,
    )
    env.reset(seed=0)
    assert env.step(r"\boxed{-1}")[1:3] == (0.0, True)
    vector = gymnasium.make_vec("mars_env/arithmetic-solve-v0", num_envs=2)
    observations, _ = vector.reset(seed=0)
    assert len(set(observations["problem"])) == 2
    vector.close()
    with pytest.raises(ConfigError):
        gymnasium.make(f"mars_env/{TEAM}-v0")
