"""Every game and every problem set passes PettingZoo's tests; real sets on local files of their schema."""

import json

import pytest
from command_line import run_python
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from hub_rows import CODE, MATHEMATICS
from rows import write_rows

import mars_env
from mars_env import load_problems
from mars_env.envs import spec
from mars_env.testing import check_env


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """Problems of a set by name, without a network: real sets from rows of their schema."""
    rows = MATHEMATICS | {name: [row] for name, row in CODE.items()}
    folder = tmp_path_factory.mktemp("hub")

    def load(name):
        if name == "livecodebench":
            (folder / "test.jsonl").write_text(json.dumps(CODE["livecodebench, call"]))
            return load_problems(name, source=folder, release="v1")
        if name not in rows:
            return None
        return load_problems(name, source=write_rows(folder / f"{name}.jsonl", rows[name]))

    return load


GAMES = ["self-refine", "solve", "solve-verify-correct", "tree-search"]
"""They play every set but that of reports, which has its own game."""
SETS = [
    *("aime", "aime24", "aime25", "arithmetic", "beyondaime", "dapo-math-17k", "gsm8k", "math500"),
    *("apps", "codecontests", "deepcoder", "humaneval", "livecodebench", "mbpp", "programs", "taco"),
]


def test_no_game_and_no_set_of_the_library_is_forgotten():
    """In a new interpreter: here, other tests may have registered theirs."""
    printed = run_python("import mars_env; print(*mars_env.list_envs())").stdout.split()
    assert set(printed) == {*(f"{name}-{game}" for name in SETS for game in GAMES), "reports-spell"}


@pytest.mark.parametrize(
    "env_id", [*(f"aime-{game}" for game in GAMES), *(f"{name}-solve" for name in SETS[1:]), "reports-spell"]
)
def test_every_game_and_every_set_passes_pettingzoos_tests(env_id, local):
    problems = local(spec(env_id).problems)
    check_env(lambda **kwargs: mars_env.make(env_id, problems=problems, **kwargs), cycles=8)


@pytest.mark.parametrize("game", [*GAMES, "spell"])
def test_every_game_passes_gymnasiums_test(game):
    env = mars_env.make("reports-spell" if game == "spell" else f"arithmetic-{game}")
    learner, *others = env.possible_agents
    view = mars_env.as_gymnasium(env, learner=learner, partners=dict.fromkeys(others, str))
    gymnasium_check_env(view, skip_render_check=True)
