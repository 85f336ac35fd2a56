"""SPELL by its name: made and played as the other games are."""

import pytest
from spell_team import ASKED, OTHER

import mars_env
from mars_env.envs.growers import Linear
from mars_env.errors import ConfigError
from mars_env.methods.spell.answers import SameAnswer
from mars_env.methods.spell.rewards import SpellReward
from mars_env.methods.spell.rules import cluster

CLUSTERS = [cluster(f"c/{i}", "Ask.", ["Profit: 17.", "Loss: 2."], other_documents=OTHER) for i in range(4)]


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


def test_a_team_that_makes_its_own_problems_cannot_be_asked():
    for env_id in ("spell", "reports-spell"):
        with pytest.raises(ConfigError):
            mars_env.solve("2 + 2?", agents="scripted:x", env_id=env_id)
