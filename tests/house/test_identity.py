"""What identifies the parts of a run."""

import json
import math
from dataclasses import dataclass, field
from functools import lru_cache, partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.agents import FunctionAgent, Solver
from mars_env.envs import GroupedSettings, grouped
from mars_env.envs.growers import chains
from mars_env.errors import ConfigError
from mars_env.grading import grader_for
from mars_env.grading.code.grader import CodeGrader
from mars_env.grading.math.grader import MathGrader
from mars_env.identity import identity_changes, identity_of
from mars_env.miniature.agents import MiniatureAgent
from mars_env.models import ScriptedModel

VALUES = st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


def nested(values):
    return st.recursive(values, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


MODEL = ScriptedModel(["4"])


class Undeclared:
    """An agent of a user that declares nothing, and changes while it plays."""

    def __init__(self, model=None):
        self.model, self.calls = model, 0


class Declared(Undeclared):
    def identity(self):
        return {"model": self.model}


class Derived(Solver):
    def prompt(self, observation):
        return observation["problem"]


@dataclass
class Settings:
    rounds: int = 1
    key: str = field(default="", repr=False)
    inner: object = None


@given(nested(VALUES | st.none()))
def test_an_identity_is_plain_data_and_a_part_is_what_it_was(value):
    def solver(observation, hint=value):
        return hint

    parts = [
        value,
        {"settings": Settings(inner=value)},
        FunctionAgent(solver),
        partial(solver, hint=value),
        Declared(ScriptedModel([json.dumps(value)])),
        lru_cache(solver),
        *(print, Undeclared, lambda: None, b"x", object(), math.inf, {"a", "b"}),
    ]
    identity = identity_of(parts)
    assert json.loads(json.dumps(identity, allow_nan=False)) == identity
    assert identity_changes(identity, identity_of(parts)) == []


@given(nested(VALUES), nested(VALUES))
def test_settings_count_by_value(one, other):
    """A setting that is not there is like one that is None."""
    changes = identity_changes(identity_of({"inner": one}), identity_of({"inner": other}))
    assert (changes == []) == (identity_of(one) == identity_of(other))


def test_what_an_object_does_in_play_does_not_count():
    agent = Undeclared()
    before = identity_of(agent)
    agent.calls += 1
    assert identity_of(agent) == before == identity_of(Undeclared(ScriptedModel(["5"])))
    assert identity_of(Declared(ScriptedModel(["4"]))) != identity_of(Declared(ScriptedModel(["5"])))


def test_a_users_code_counts_by_its_source_text_and_the_librarys_by_its_name():
    def plus(seen, by=1):
        return seen + by

    def plus_in_other_words(seen, by=1):
        return by + seen

    plus_in_other_words.__qualname__ = plus.__qualname__
    assert identity_of(plus) != identity_of(plus_in_other_words)
    assert identity_of(Derived(ScriptedModel(["4"])))["source"] != identity_of(Undeclared())["source"]
    assert "source" not in identity_of(Solver(ScriptedModel(["4"])))
    assert identity_of(math.sqrt) == "math.sqrt"


@pytest.mark.parametrize(
    ("part", "other"),
    [
        (MathGrader(), MathGrader(tolerance=0.1)),
        (grader_for("code"), CodeGrader(tests="public")),
        (chains(2), chains(3)),
        (grouped(GroupedSettings()), grouped(GroupedSettings(group=4))),
        (MiniatureAgent("solver", MODEL), MiniatureAgent("solver", MODEL, max_tokens=9)),
        (Solver(MODEL), Solver(MODEL, system="Be brief.")),
        (Solver(MODEL), Solver(ScriptedModel(["5"]))),
    ],
)
def test_parts_of_the_library_count_by_value(part, other):
    assert identity_of(part) == identity_of(part) != identity_of(other)


def test_strings_of_a_users_settings_are_digests():
    identity = identity_of(Settings(2, "sk-1", Settings(3, inner=["sk-2"])))
    assert "sk-" not in json.dumps(identity)
    assert identity != identity_of(Settings(2, "sk-1", Settings(3, inner=["sk-3"])))
    assert identity["rounds"] == 2 and "key" not in identity


def test_a_part_that_contains_itself_or_declares_no_mapping_is_an_error():
    class Wrong:
        def identity(self):
            return "me"

    loop = Settings()
    loop.inner = loop
    for part in (Wrong(), loop):
        with pytest.raises(ConfigError):
            identity_of(part)
