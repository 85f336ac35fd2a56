import sys

import pytest

from mars_env import load_problems
from mars_env.errors import ConfigError
from mars_env.problems import ProblemSet, list_problem_sets, register_problem_set, registry
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


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((f"my_sets_for_test:{part}", {}) for part in ("absent", "wrong", "returns_a_list")),
        *((name, {}) for name in ("no_such_module_here:set", "amie", "nosuch", "")),
        ("my_sets_for_test:riddles", {"colour": "red"}),
        ("aime", {"fields": {"problem": "question"}}),  # they are for files
    ],
)
def test_what_names_no_set_or_is_no_option_of_it_is_refused(module, name, options):
    with pytest.raises(ConfigError):
        load_problems(name, **options)


def test_names_are_unique_and_well_formed(monkeypatch):
    monkeypatch.setattr(registry, "_loaders", dict(registry._loaders))

    def mine(*, seed, split):
        return ProblemSet("mine", [Problem("m/0", "How many?", "1")])

    register_problem_set("mine-for-test", mine)
    register_problem_set("mine-for-test", mine)
    assert "mine-for-test" in list_problem_sets()
    with pytest.raises(ConfigError):
        register_problem_set("aime", mine)
    with pytest.raises(ConfigError):
        register_problem_set("my set", mine)


def test_entry_points_are_found(monkeypatch):
    class Point:
        def load(self):
            return lambda *, seed, split: ProblemSet("packed", [Problem("packed/0", "How many?", str(seed))])

    monkeypatch.setattr(registry, "declared", lambda group: {"from-a-package": Point()})
    assert "from-a-package" in list_problem_sets()
    assert load_problems("from-a-package", seed=4)[0].reference == "4"
