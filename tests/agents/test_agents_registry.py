import importlib
import sys

import pytest
from exact_engine import Engine

from mars_env.agents.registry import as_agent, make_agents
from mars_env.agents.roles import Corrector, Solver, Verifier
from mars_env.errors import ConfigError
from mars_env.types import Agent, Sampling

TEAM = ("solver_0", "verifier_0", "corrector_0")


SOURCE = """
class Agent_:
    policy = "mine"
    def __init__(self, role="x"): self.role = role
    async def act(self, observation, n, seed): raise NotImplementedError
class Model_:
    name = "m"
    async def complete(self, prompt, n, sampling): raise NotImplementedError
class Needy(Model_):
    def __init__(self, path): pass
instance, model = Agent_(), Model_()
def factory(): return Model_()
def by_role(role): return Agent_(role)
def function(observation): return "4"
number = 4
"""


@pytest.fixture
def my_module(monkeypatch, tmp_path):
    (tmp_path / "my_agents_module.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("my_agents_module")
    del sys.modules["my_agents_module"]


def test_one_specification_is_one_model_for_all():
    team = make_agents("http://localhost:8000/v1#qwen?temperature=0.6&exact=1&concurrency=7", TEAM)
    assert [type(agent) for agent in team.values()] == [Solver, Verifier, Corrector]
    assert len({id(agent.model) for agent in team.values()}) == 1
    assert {agent.policy for agent in team.values()} == {"qwen"}
    assert team["solver_0"].sampling == Sampling(temperature=0.6)
    assert team["solver_0"].model.capacity == 7 and team["solver_0"].model.exact


def test_roles_may_differ():
    spec = (
        "solver=http://a/v1+http://b:8000/v1#m?top_k=5,max_tokens=9,"
        "verifier=scripted:x, y,corrector=scripted:x, y"
    )
    with pytest.raises(ConfigError):
        make_agents(spec, TEAM)
    team = make_agents(spec.replace(",max_tokens", "&max_tokens"), TEAM, sampling=Sampling(temperature=0.3))
    assert team["solver_0"].model.endpoints == ["http://a/v1", "http://b:8000/v1"]
    assert team["solver_0"].sampling == Sampling(temperature=0.3, top_k=5, max_tokens=9)
    assert team["verifier_0"].sampling == Sampling(temperature=0.3)
    assert team["verifier_0"].model is team["corrector_0"].model


def test_thinking_and_switches_are_options():
    visible = {"": "a", "?thinking=tags": "a", "?thinking=opened": "", "?thinking=off": None}
    for option, text in visible.items():
        solver = make_agents(f"http://a/v1#m{option}", ["solver_0"])["solver_0"]
        assert (solver.thinking and solver.thinking.visible("a<think>b")) == text
    with pytest.raises(ConfigError):
        make_agents("http://a/v1#m?thinking=loud", ["solver_0"])
    for word, exact in (("true", True), ("On", True), ("1", True), ("no", False)):
        assert make_agents(f"http://a/v1#m?exact={word}", ["solver_0"])["solver_0"].model.exact is exact


def test_own_modules(my_module):
    def make(name):
        return make_agents(f"my_agents_module:{name}", TEAM)

    assert set(map(id, make("instance").values())) == {id(my_module.instance)}
    assert make("model")["verifier_0"].model is my_module.model
    assert len({id(agent.model) for agent in make("factory").values()}) == 1
    assert [agent.role for agent in make("by_role").values()] == ["solver", "verifier", "corrector"]
    assert [agent.role for agent in make("Agent_").values()] == ["solver", "verifier", "corrector"]
    assert isinstance(make("function")["solver_0"], Agent)
    assert make("model?temperature=0.2")["solver_0"].sampling == Sampling(temperature=0.2)
    for wrong in ("Needy", "nothing", "number"):
        with pytest.raises(ConfigError):
            make(wrong)


@pytest.mark.parametrize(
    "spec",
    [
        "no_such_module_at_all:x",
        "http://localhost/v1",
        "http://localhost/v1#m?colour=red",
        "http://localhost/v1#m?temperature=-1",
        "http://localhost/v1#m?top_k=1&top_k=2",
        "solver=scripted:x,solver=scripted:y",
        "judge=scripted:x",
        "",
        "localhost:8000/v1#m",
        "hf:/no/such/path",
        "http://127.0.0.1:9/v1#m?extra_body={",
        'http://127.0.0.1:9/v1#m?extra_body={"max_tokens":3}',
        "http://127.0.0.1:9/v1#m?header.Authorization=Bearer x",
        "http://127.0.0.1:9/v1#m?header.Authorization=env:NOT_SET_ANYWHERE",
    ],
)
def test_mistakes_are_named(spec):
    with pytest.raises(ConfigError):
        make_agents(spec, TEAM)


async def test_functions_are_agents():
    async def later(observation):
        return observation["problem"] + "!"

    def seeded(observation, seed):
        return f"{observation['problem']} {seed}"

    first, second = await as_agent(seeded).act({"problem": "x"}, 2, 0)
    assert first.text != second.text
    for function in (later, lambda observation: observation["problem"] + "!"):
        actions = await as_agent(function).act({"problem": "x"}, 2, 0)
        assert [action.text for action in actions] == ["x!", "x!"]


async def test_fields_and_headers_of_requests_are_options(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "sk-secret-1")
    async with Engine() as engine:
        spec = (
            f"{engine.url}#m?reasoning_effort=low&limit_field=max_completion_tokens&max_tokens=7"
            '&extra_body={"service_tier":"a%26b%3F","depth":{"x":[1,2]}}&header.X-Team=maths'
            "&header.X-Api-Key=env:MY_TOKEN"
        )
        team = make_agents(f"solver={spec},verifier=scripted:x", ["solver_0", "verifier_0"])
        await team["solver_0"].act({"problem": "2 + 2?"}, n=1, seed=0)
        [(body, headers)] = engine.requests
        model = team["solver_0"].model
    assert body["reasoning_effort"] == "low" and body["max_completion_tokens"] == 7
    assert body["service_tier"] == "a&b?" and body["depth"] == {"x": [1, 2]} and "max_tokens" not in body
    assert (headers["X-Team"], headers["X-Api-Key"]) == ("maths", "sk-secret-1")
    assert model.extra_body["reasoning_effort"] == "low" and model.limit_field == "max_completion_tokens"
    assert "sk-secret" not in repr(vars(model)["extra_body"])
