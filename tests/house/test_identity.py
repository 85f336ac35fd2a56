"""What identifies the parts of a run."""

import importlib
import json
import math
import os
from dataclasses import dataclass, field
from functools import lru_cache, partial

import pytest
from command_line import run_python

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


PROMPT = "A"


def digest(part):
    return identity_of(part)["code"]


def helper():
    return PROMPT


@lru_cache
def cached():
    return PROMPT


def with_helper(seen):
    return helper()


def with_cached(seen):
    return cached()


class Uses:
    """An agent that reads the prompt."""

    def act(self):
        return helper()


def makes(seen):
    return Uses()


def test_constants_count_that_code_refers_to(monkeypatch):
    parts = (helper, with_helper, with_cached, Uses, makes, partial(with_helper, "x"))
    before = list(map(digest, parts))
    monkeypatch.setitem(globals(), "PROMPT", "B")
    assert all(one != other for one, other in zip(before, map(digest, parts), strict=True))
    monkeypatch.setitem(globals(), "PROMPT", "A")
    assert before == list(map(digest, parts))


def test_closures_defaults_and_code_count_and_docstrings_do_not():
    def closed(prompt, by="x"):
        def solver(seen, by=by):
            return prompt

        return solver

    def documented(seen):
        """It has one."""
        return seen + 1

    def plain(seen):
        return seen + 1

    assert digest(closed("a")) == digest(closed("a"))
    assert len({digest(closed("a")), digest(closed("b")), digest(closed("a", by="y"))}) == 3
    assert digest(plain) == digest(documented)
    assert digest(partial(closed, "a")) != digest(partial(closed, "b"))
    assert digest(lambda seen: seen + 1) != digest(lambda seen: seen - 1)


def test_what_code_changes_itself_does_not_count():
    def counting():
        calls, seen_before = 0, []

        def solver(seen):
            nonlocal calls
            calls += 1
            seen_before.append(seen)
            return "4"

        return solver

    solver = counting()
    before = digest(solver)
    solver("?")
    assert digest(solver) == before


def test_many_functions_may_refer_to_each_other(tmp_path, monkeypatch):
    every = ", ".join(f"f{i}" for i in range(30))
    (tmp_path / "made_here.py").write_text("".join(f"def f{i}(): return {every}\n" for i in range(30)))
    monkeypatch.syspath_prepend(tmp_path)
    assert digest(importlib.import_module("made_here").f0)


def test_a_digest_is_the_same_in_every_process():
    code = """
from mars_env.identity import identity_of
def f(seen):
    return seen in {"a", "b", "c"}, [x for x in seen if x in ("d", 1, 2.5)], {"k": seen}
print(identity_of(f)["code"])
"""
    told = {run_python(code, env={**os.environ, "PYTHONHASHSEED": seed}, check=True).stdout for seed in "12"}
    assert len(told) == 1 and told.pop().strip()
