"""SPELL's game played by scripts."""

import json

from mars_env.methods.spell.rules import cluster
from mars_env.methods.spell.training import SpellSettings, spell_game
from mars_env.rollout import Job, collect
from mars_env.types import Action, Completion

OTHER = ["Profit: 3.", "Loss: 4."]
CLUSTER = cluster("c", "Ask.", ["Profit: 17.", "Loss: 2."], other_documents=OTHER)
ASKED = json.dumps({"question": "Which profit?", "answer": "17"})


class Script:
    """An agent that says what a function of observation and sample's number says."""

    policy = "script"

    def __init__(self, says):
        self.says = says

    async def act(self, observation, n, seed):
        made = [self.says(observation, i) for i in range(n)]
        return [each if isinstance(each, Action) else Action(each) for each in made]


def cut(text):
    """An action that the context cut off."""
    return Action(text, (Completion(text, "context"),))


def team(asked=ASKED, blind="no idea", answers=("17",), votes=lambda answer, i: "YES"):
    """Agents by name: what is asked, said on another cluster's documents, and on its own; the votes."""

    def respond(seen, i):
        return answers[i % len(answers)] if "Profit: 17." in seen["documents"] else blind

    return {
        "questioner_0": Script(lambda seen, i: asked),
        "responder_0": Script(respond),
        "verifier_0": Script(lambda seen, i: votes(seen["answer"], i)),
    }


async def played(settings=None, problem=CLUSTER, game=None, **said):
    """One tree."""
    settings = settings or SpellSettings(group=4, verifiers=4)
    [tree] = await collect(game or spell_game(settings), team(**said), [Job(problem)], seed=0)
    return tree


def rewards_of(tree):
    """Rewards by role, in the order of the turns; the answer from other documents is the role "probe"."""
    rewards = {}
    for turn in tree.turns:
        rewards.setdefault("probe" if turn.info.get("probe") else turn.role, []).append(turn.reward)
    return rewards
