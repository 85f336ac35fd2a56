"""How many clusters a batch of SPELL plays, and what the memory gets of them."""

import json
import re

import pytest
from spell_team import Script, cut

from mars_env.errors import ModelError
from mars_env.methods.spell.rules import cluster
from mars_env.methods.spell.training import MEMORY, SpellRun, SpellSettings, spell_batches
from mars_env.problems import ProblemSet
from mars_env.trainers import RunSettings, Team

CLUSTERS = ProblemSet("c", [cluster(f"c/{i}", "Ask.", [f"Profit {i}: 17.", "Loss: 2."]) for i in range(5)])


class Asks:
    """A Questioner that asks another question each time."""

    policy = "script"

    def __init__(self):
        self.asked = 0

    async def act(self, observation, n, seed):
        self.asked += 1
        [name] = re.findall(r"Profit \d", observation["documents"])
        said = json.dumps({"question": f"{name}, question {self.asked}?", "answer": "17"})
        return await Script(lambda seen, i: said).act(observation, n, seed)


def team(answers):
    def respond(seen, i):
        assert seen["documents"]
        return answers[i % len(answers)] if seen["question"].partition(",")[0] in seen["documents"] else "?"

    return Team(
        {"questioner_0": Asks(), "responder_0": Script(respond), "verifier_0": Script(lambda seen, i: "NO")},
        {},
    )


async def batches(answers, steps=1, directory=None, **changes):
    """The numbers of trees of all batches, and the batches."""
    spell = SpellSettings(**{"group": 2, "verifiers": 1, "questions": 3, "tries": 4, **changes})
    settings = RunSettings(rollouts=None, steps=steps, problems_per_step=2)
    played = []
    drawn = spell_batches(
        SpellRun(team(answers), CLUSTERS, settings, spell), directory=directory,
        on_trees=lambda step, trees: played.append(len(trees)),
    )  # fmt: skip
    return played, [batch async for batch in drawn]


async def test_clusters_are_drawn_until_there_are_enough_questions():
    """Each try of two clusters gives two questions that half of the answers solve; three are wanted."""
    played, [batch] = await batches(("17", "2"))
    assert played == [4]  # 2 + 2
    roles = [group.turns[0].role for group in batch.groups]
    assert roles.count("responder") == roles.count("questioner") == 3  # all are solvable: none is refused


async def test_after_so_many_tries_a_batch_is_what_there_is():
    played, [batch] = await batches(("17",))  # everybody solves everything
    assert played == [8] and batch.groups == ()  # 4 tries of 2
    played, _ = await batches(("17", "2"), questions=100, tries=3)
    assert played == [6]


async def test_the_memory_grows_by_the_questions_of_every_try(tmp_path):
    played, _ = await batches(("17", "2"), steps=2, directory=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / MEMORY).read_text().splitlines()]
    assert played == [4, 4] and [len(row["new"]) for row in rows] == [4, 4]


async def test_questions_that_nobody_could_judge_are_not_counted_as_solvable():
    played, [batch] = await batches((cut("17"), cut("2")))
    assert played == [8] and batch.groups == ()


async def test_a_questioner_that_is_gone_ends_the_run(tmp_path, monkeypatch):
    async def gone(self, observation, n, seed):
        raise ModelError("connection refused")

    monkeypatch.setattr(Asks, "act", gone)
    with pytest.raises(ModelError):
        await batches(("17", "2"), directory=tmp_path)
    assert (tmp_path / MEMORY).read_text() == ""  # no update counts
