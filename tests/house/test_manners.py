"""Wrong values, names and orders of calls get one sentence that says what was wrong and what to do."""

import copy
import pickle
from types import SimpleNamespace

import gymnasium
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from messages import raises
from two_turns import TwoTurns

import mars_env
from mars_env.errors import ConfigError

TEAM = "arithmetic-solve-verify-correct"


def say_one(observation):
    return r"\boxed{1}"


def evaluate(**options):
    return mars_env.evaluate("arithmetic-solve", **{"agents": say_one, "limit": 1, **options})


WRONG = {
    "make(None)": lambda: mars_env.make(None),
    "spec(3)": lambda: mars_env.spec(3),
    "a list to load": lambda: mars_env.load_problems([{"id": "a"}]),
    "rows": lambda: mars_env.make(TEAM, problems=[{"id": "a"}]),
    "a row": lambda: mars_env.make(TEAM, problems={"id": "a"}),
    "no problems": lambda: mars_env.make(TEAM, problems=[]),
    "rewards=function": lambda: mars_env.make(TEAM, rewards=lambda turn, path, problem: 1.0),
    "a role of rewards": lambda: mars_env.make(TEAM, rewards={"solvr": lambda turn, path, problem: 1.0}),
    "grader=function": lambda: mars_env.make(TEAM, grader=lambda p, t: 1),
    "grower=3": lambda: mars_env.make(TEAM, grower=3),
    "samples='3'": lambda: evaluate(samples="3"),
    "limit=2.0": lambda: evaluate(limit=2.0),
    "seed='x'": lambda: evaluate(seed="x"),
    "concurrency=True": lambda: evaluate(concurrency=True),
    "turn_timeout='3'": lambda: evaluate(turn_timeout="3"),
    "turn_timeout=0.0": lambda: evaluate(turn_timeout=0.0),
    "out=3": lambda: evaluate(out=3),
    "on_tree=3": lambda: evaluate(on_tree=3),
    "an agent's role": lambda: evaluate(agents={"solvr": say_one}),
    "compare(None)": lambda: mars_env.compare(None, None),
    "register": lambda: mars_env.register("x-y", problems=3, rules="solve"),
    "a reward": lambda: mars_env.register(
        "my-sums", problems="arithmetic", rules="solve", rewards={"solver": lambda turn: 1}
    ),
    "an id that is taken": lambda: mars_env.register("arithmetic-solve", problems="aime", rules="solve"),
    "a view of nothing": lambda: mars_env.as_gymnasium(None, learner="solver_0", partners={}),
    "partners=None": lambda: mars_env.as_gymnasium(mars_env.make(TEAM), learner="solver_0", partners=None),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_gets_a_sentence(name):
    with raises(ConfigError) as raised:
        WRONG[name]()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda env: env.observe("solver_0"),
        lambda env: env.step("4"),
        lambda env: env.last(),
        lambda env: env.tree,
        lambda env: env.render(),
        lambda env: env.rewards,
        lambda env: env.agent_selection,
    ],
)
def test_calls_before_reset_are_told_to_reset(call):
    with raises(ConfigError):
        call(mars_env.make(TEAM, render_mode="ansi"))


def test_what_is_not_there_is_an_ordinary_missing_attribute():
    env = mars_env.make(TEAM)
    assert not hasattr(env, "agent_selection")
    assert not hasattr(env, "nonsense")
    with raises(AttributeError):
        env.nonsense  # noqa: B018


@pytest.mark.parametrize(
    "call",
    [
        lambda env: env.observe("solvr_0"),
        lambda env: env.action_space("judge"),
        lambda env: env.observation_space("judge"),
        lambda env: env.reset(seed="3"),
        lambda env: env.reset(seed=-1),
        lambda env: env.reset(options=["problem"]),
        lambda env: env.reset(options={"problm": "x"}),
        lambda env: env.reset(options={"problem": 3}),
    ],
)
def test_wrong_names_and_arguments_of_an_environment_are_told(call):
    env = mars_env.make(TEAM)
    env.reset(seed=0)
    with raises(ConfigError):
        call(env)


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


def one_view():
    return mars_env.as_gymnasium(mars_env.make("arithmetic-solve"), learner="solver_0", partners={})


def test_an_id_may_be_registered_again_for_the_same_game():
    mars_env.register("aime-self-refine", problems="aime", rules="self-refine")
    assert mars_env.make("aime-self-refine").problems.name == "aime"


def test_a_learner_may_have_partners_of_its_own_role():
    class TwoSolvers(TwoTurns):
        possible_agents = ("solver_0", "solver_1")

    def view(**partners):
        env = mars_env.make("arithmetic-two-solvers")
        return mars_env.as_gymnasium(env, learner="solver_1", partners=partners)

    mars_env.register_rules("two-solvers", TwoSolvers)
    assert view(solver=lambda seen: "hm").reset(seed=0)[0]["quote"] == "hm"
    for partners in ({"solver_1": str, "solver_0": str}, {"solver": str, "solver_1": str}):
        with raises(ConfigError):
            view(**partners)
    with raises(ConfigError):
        mars_env.as_gymnasium(mars_env.make("arithmetic-solve"), learner="solver_0", partners={"solver": str})


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
    with raises(ConfigError):
        gymnasium.make(f"mars_env/{TEAM}-v0")


def test_vectors_in_processes_play_the_same_and_say_what_they_need():
    with raises(ValueError):
        AsyncVectorEnv([one_view] * 2)
    played = []
    for vector in (SyncVectorEnv([one_view] * 2), AsyncVectorEnv([one_view] * 2, shared_memory=False)):
        observations, _ = vector.reset(seed=0)
        _, rewards, ended, _, _ = vector.step(("a", "b"))
        played.append((observations["problem"], list(rewards), list(ended)))
        vector.close()
    assert played[0] == played[1]


def test_problems_without_references_are_not_trained_on():
    from mars_env.sync import run_sync
    from mars_env.trainers import MARSRL, train

    problems = [mars_env.Problem("q", "2 + 2?")]
    nobody = SimpleNamespace(agents={}, policies={})  # it is refused before the team is looked at
    with raises(ConfigError):
        run_sync(train(mars_env.make("arithmetic-solve", problems=problems).game, nobody, problems, MARSRL))
