"""The three small games: each is short, keeps the contract of games, and trains."""

import importlib
import re

import pytest
from examples_run import run
from made_by_make import needed

from mars_env import Problem
from mars_env.miniature.recipe import QUICK
from mars_env.testing import check_game

GAMES = {"debate", "forecast", "relay"}


@pytest.mark.parametrize("name", sorted(GAMES))
def test_the_games_keep_the_contract(name):
    needed("torch", "hf")
    module = importlib.import_module(f"games.{name}")
    texts = ["", "0", "1", "9", "a: = 882\nb: - 27 = 855\n"]
    check_game(getattr(module, name), Problem("p", "What is 2 + 2?", "4"), texts=texts, episodes=20)


@pytest.mark.parametrize("name", sorted(GAMES))
def test_it_trains(name, tmp_path, monkeypatch):
    """The last role's reward rises from the first to the last third of the updates."""
    needed("torch", "hf").set_num_threads(1)
    monkeypatch.setattr("mars_env.miniature.recipe.RECIPE", QUICK)
    printed = run(f"games/{name}", tmp_path)
    role = {"debate": "judge", "forecast": "forecaster", "relay": "finisher"}[name]
    rewards = [float(each) for each in re.findall(rf"'{role}': ([\d.]+)", printed)]
    if name == "relay":  # three updates of the miniature: too few to measure
        assert len(rewards) == 3
        return
    third = len(rewards) // 3
    assert third == 5 and sum(rewards[-third:]) > sum(rewards[:third]) + 0.05 * third
