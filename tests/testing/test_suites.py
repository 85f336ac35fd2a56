"""The contract suite refuses environments that show the reference."""

from contextlib import nullcontext

import pytest

import mars_env
from mars_env.envs import Game, MarsEnv, solve_verify_correct
from mars_env.grading import grader_for
from mars_env.testing import check_env


class Leaky(MarsEnv):
    """Shows the reference: to the agent whose turn it is, to those who wait, or in an info of theirs."""

    place = ""

    def observe(self, agent):
        seen = dict(super().observe(agent))
        if self.place == ("acting" if agent == self.agent_selection else "waiting"):
            seen["problem"] += f" ({self.problem.reference})"
        return seen

    def step(self, action):
        super().step(action)
        if self.place == "info":
            for agent in self.agents:
                if agent != self.agent_selection:
                    self.infos[agent]["hint"] = self.problem.reference


@pytest.mark.parametrize(
    ("place", "message"),
    [("acting", "observation"), ("waiting", "observation"), ("info", "info"), ("", None)],
)
def test_no_agent_may_be_shown_the_reference(monkeypatch, place, message):
    monkeypatch.setattr(Leaky, "place", place)

    def make(**options):
        game = Game(solve_verify_correct(), grader_for("math"))
        return Leaky(game, mars_env.load_problems("arithmetic", n=3), **options)

    refused = pytest.raises(AssertionError, match=f"the {message} of .* contains the reference")
    with refused if message else nullcontext():
        check_env(make, cycles=2)
