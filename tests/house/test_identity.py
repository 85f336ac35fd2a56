"""What identifies the parts of a run."""

import json
import math
from dataclasses import dataclass, field

import pytest

from mars_env.agents import FunctionAgent, Solver
from mars_env.errors import ConfigError
from mars_env.identity import identity_changes, identity_of
from mars_env.models import ScriptedModel
from mars_env.types import Sampling


class Own:
    """An agent of a user that declares nothing."""

    policy = "own"

    def __init__(self, system="Be brief.", model=None):
        self.system, self.model, self.calls = system, model or ScriptedModel(["4"]), 0
        self.sampling = Sampling(top_k=5)
        self.log = []

    async def act(self, observation, n, seed):
        self.calls += 1
        self.log.append(observation)
        return []


class Declares(Own):
    def identity(self):
        return {"system": self.system, "model": self.model}


class Derives(Solver):
    def prompt(self, observation):
        return observation["problem"]


async def test_an_agent_that_declares_nothing_counts_with_its_constants_and_parts():
    agent = Own()
    before = identity_of(agent)
    assert before["sampling"]["top_k"] == 5 and before["model"]["script"] == ["4"]
    await agent.act({}, 1, 0)
    assert identity_of(agent) == before == identity_of(Own())
    assert identity_of(Own("Be kind."))["code"] != before["code"]
    assert identity_of(Own(model=ScriptedModel(["5"])))["model"] != before["model"]
    assert "Be brief." not in json.dumps(before)  # it might be a secret


def test_a_declaration_replaces_what_would_be_found():
    assert identity_of(Declares()).keys() == {"class", "system", "model"}
    assert identity_changes(identity_of(Declares()), identity_of(Declares("Be kind."))) == [
        "system: 'Be brief.' then, 'Be kind.' now"
    ]


def test_the_code_of_a_class_counts_that_derives_from_one_that_declares():
    assert "code" not in identity_of(Solver(ScriptedModel(["4"])))
    assert identity_of(Derives(ScriptedModel(["4"])))["code"]


def test_a_declaration_must_be_a_mapping():
    class Wrong:
        def identity(self):
            return "me"

    with pytest.raises(ConfigError):
        identity_of(Wrong())


def test_fields_count_that_differ_from_their_defaults_and_are_shown():
    @dataclass
    class Settings:
        rounds: int = 1
        key: str = field(default="", repr=False)
        inner: object = None

    told = identity_of(Settings(2, "sk-1", Settings(3, inner=["sk-2"])))
    assert "sk-" not in json.dumps(told)
    assert told != identity_of(Settings(2, "sk-1", Settings(3, inner=["sk-3"])))
    assert (told["rounds"], told["inner"]["rounds"]) == (2, 3)
    assert "key" not in told and identity_of(Settings()).keys() == {"class", "code"}
    loop = Settings()
    loop.inner = loop
    assert identity_of(loop)["inner"] == "itself"


def test_an_identity_is_plain_data():
    parts = [
        FunctionAgent(str.upper),
        math.inf,
        {1: {"b", "a"}},
        print,
        Own,
        Own(),
        lambda: None,
        b"x",
        object(),
    ]
    told = identity_of(parts)
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_differences_of_long_texts_are_shown_where_they_begin():
    [told] = identity_changes({"a": "x" * 500 + "1"}, {"a": "x" * 500 + "2"})
    assert "1' then" in told and "2' now" in told and len(told) < 120
