"""A method that a newcomer forgets to write as async is named."""

from contextlib import suppress

import pytest

import mars_env
from mars_env.errors import ModelError
from mars_env.types import Action, Grade, Ratings


class Waits:
    """All that a user may have written without ``async``."""

    policy = "waits"

    def act(self, observation, n, seed):
        return [Action("4")] * n

    def grade(self, problem, text):
        return Grade.correct()

    def rate(self, statement, texts, seed):
        return Ratings((0.5,) * len(texts))


@pytest.mark.parametrize(
    ("env_id", "parts", "told"),
    [
        ("arithmetic-solve", {"agents": Waits()}, "Waits.act() is not async"),
        ("arithmetic-tree-search", {"reward_model": Waits()}, "Waits.rate() is not async"),
    ],
)
def test_a_method_that_is_not_async_says_so(env_id, parts, told):
    trees = []
    with suppress(ModelError):
        mars_env.evaluate(env_id, **{"agents": lambda seen: "4", **parts}, limit=1, on_tree=trees.append)
    [tree] = trees
    reasons = [tree.fault, *(turn.grade.reason + turn.info.get("search_unknown", "") for turn in tree.turns)]
    assert told in "".join(reasons)
