"""SPELL by its name: made, played, evaluated and printed as the other games are."""

import json

import pytest
from command_line import call_cli
from spell_team import ASKED, OTHER, team

import mars_env
from mars_env.envs.growers import Linear
from mars_env.errors import ConfigError
from mars_env.methods.spell.answers import SameAnswer
from mars_env.methods.spell.rewards import SpellReward
from mars_env.methods.spell.rules import cluster
from mars_env.trainers.assembly import training_game
from mars_env.trainers.recipes import MARSRL

CLUSTERS = [cluster(f"c/{i}", "Ask.", ["Profit: 17.", "Loss: 2."], other_documents=OTHER) for i in range(4)]
SPECIFICATION = f"questioner=scripted:{ASKED},responder=scripted:It is 18.,verifier=scripted:YES"


def test_the_name_makes_the_whole_game():
    game = mars_env.make("reports-spell", problems=CLUSTERS, longest_answer=3).game
    assert game.rules.settings.longest_answer == 3 and isinstance(game.grader, SameAnswer)
    assert game.team_reward == SpellReward() and game.rewards == {} and game.grower is Linear
    assert not game.needs_reference  # the questioner makes it
    other = SpellReward("tent")
    assert mars_env.make("reports-spell", problems=CLUSTERS, team_reward=other).game.team_reward is other


def test_an_episode_by_hand():
    """One question, an answer from other documents, one from its own, one vote: it says that 18 is 17."""
    env = mars_env.make("reports-spell", problems=CLUSTERS)
    env.reset(seed=0)
    for text in (ASKED, "no idea", "It is 18.", "NO"):
        env.step(text)
    assert [turn.role for turn in env.tree.turns] == ["questioner", "responder", "responder", "verifier"]
    assert [turn.reward for turn in env.tree.turns] == [0.0, None, 0.0, 1.0]
    assert env.tree.final == env.tree.turns[2].id
    env.reset(seed=0)
    for text in (ASKED, "no idea", "It is 18.", "YES"):
        env.step(text)
    assert [turn.reward for turn in env.tree.turns] == [0.0, None, 1.0, 1.0]  # all solve it: nothing to learn


def test_other_problems_get_one_sentence():
    with pytest.raises(ConfigError) as caught:
        mars_env.evaluate("aime-spell", agents=team(), limit=1)
    assert "\n" not in str(caught.value)


def test_the_command_line_plays_and_exports_it(tmp_path):
    out = tmp_path / "run"
    said = call_cli("evaluate", "reports-spell", "--agents", SPECIFICATION, "--limit", 2, "--out", out,
                   "--set", "grounding=false", "--json")  # fmt: skip
    assert json.loads(said)["counts"]["turns"] == {"questioner": 2, "responder": 2, "verifier": 2}
    said = call_cli("export", out, "-", "--least", 0)
    assert said.count("You write questions about documents") == 2
    assert {"reports", "spell"} <= set(call_cli("envs").split())


def test_trainers_that_do_not_know_spell_say_which_function_does(tmp_path):
    said = call_cli("train", "reports-spell", "--model", "nowhere", "--out", tmp_path / "run", code=2)
    assert "mars_env.methods.spell.training.train_spell" in " ".join(said.split()).replace(
        "train_ spell", "train_spell"
    )
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigError):
        training_game(MARSRL.with_(environment={"id": "reports-spell"}))


def test_a_team_that_makes_its_own_problems_cannot_be_asked():
    for env_id in ("spell", "reports-spell"):
        with pytest.raises(ConfigError):
            mars_env.solve("2 + 2?", agents="scripted:x", env_id=env_id)
