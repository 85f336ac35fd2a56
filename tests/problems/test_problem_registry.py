import sys

import pytest

from mars_env import load_problems
from mars_env.problems import ProblemSet, register_problem_set, registry
from mars_env.types import Problem

MODULE = """
from mars_env.problems import ProblemSet, register_problem_set
from mars_env.types import Problem

def riddles(*, seed=0, split=None, count=2):
    return ProblemSet("riddles", [Problem(f"riddle/{i}", "How many?", str(i + seed)) for i in range(count)])

def registered(*, seed=0, split=None):
    return ProblemSet("registered", [Problem("r/0", "How many?", "1")])

register_problem_set("registered-in-module", registered)
ready = ProblemSet("ready", [Problem("ready/0", "How many?", "1")])
wrong = 7
def returns_a_list(*, seed, split):
    return []
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_loaders", {})  # none of what other tests in this process have registered
    (tmp_path / "my_sets_for_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_sets_for_test", raising=False)
    yield "my_sets_for_test"
    sys.modules.pop("my_sets_for_test", None)


def test_a_set_of_ones_own_by_module_name(module):
    problems = load_problems(f"{module}:riddles", seed=3, count=4)
    assert [p.reference for p in problems] == ["3", "4", "5", "6"]
    assert load_problems(f"{module}:ready")[0].id == "ready/0"
    assert load_problems(f"{module}:registered-in-module").name == "registered"
    assert load_problems("registered-in-module").name == "registered"


def test_a_module_gives_its_own_set_though_another_has_registered_the_name(module):
    def others(*, seed, split):
        return ProblemSet("others", [Problem("others/0", "How many?", "1")])

    register_problem_set("riddles", others)
    assert load_problems("riddles").name == "others"
    assert load_problems(f"{module}:riddles").name == "riddles"


def test_what_is_known_of_a_set_before_it_is_loaded():
    names = ("gsm8k", "aime25", "livecodebench", "arithmetic")
    assert [registry.held_out_by_default(name) for name in names] == ["test", None, None, None]
    assert [registry.kind_of_set(name) for name in names] == ["math", "math", "code", None]
    assert registry.describe_problem_set("aime25") == "math-ai/aime25 on the Hugging Face hub"
