"""Before a run starts: whether the longest prompts leave the agents the room that their limits promise."""

import re

import pytest

from mars_env.agents.roles import Corrector, Solver, Verifier
from mars_env.envs import solve, solve_verify_correct
from mars_env.errors import ConfigError
from mars_env.rollout.contexts import needs, require_room
from mars_env.types import Problem, Sampling

PROBLEMS = [Problem("short", "2 + 2?", "4"), Problem("long", "one " * 50, "4")]
TEMPLATE = {"solver": 1, "verifier": 2, "corrector": 3}


class Words:
    """A model of a known context, which counts a word as a token."""

    name = "words"

    def __init__(self, context):
        self.context = context

    def encode(self, prompt):
        return prompt.split()

    async def complete(self, prompt, n, sampling):
        raise AssertionError("nothing is sampled before a run starts")


def agent(role, context, limit, overflow="check"):
    def prompt(seen):
        texts = [str(seen[name]) for name in ("problem", "solution", "report") if name in seen]
        return " ".join([*texts, "template " * TEMPLATE[role]])

    kind = {"solver": Solver, "verifier": Verifier, "corrector": Corrector}[role]
    sampling = Sampling(max_tokens=limit, overflow=overflow)
    return kind(Words(context), prompt=prompt, sampling=sampling)


def team(context, limits=(100, 40, 70), overflow="check"):
    roles = ("solver", "verifier", "corrector")
    return {f"{r}_0": agent(r, context, n, overflow) for r, n in zip(roles, limits, strict=True)}


@pytest.mark.parametrize(("context", "short"), [
    (263, []), (262, ["corrector_0"]), (191, ["corrector_0", "verifier_0"]),
    (150, ["corrector_0", "solver_0", "verifier_0"]),
])  # fmt: skip
async def test_a_context_that_is_too_small_by_one_token_is_refused_with_the_numbers(context, short):
    rules, players = solve_verify_correct(schedule="training"), team(context)
    assert sorted(n.agent for n in needs(rules, players, PROBLEMS) if not n.fits) == short
    if not short:
        await require_room(rules, players, PROBLEMS)
        return
    with pytest.raises(ConfigError) as refusal:
        await require_room(rules, players, PROBLEMS)
    assert sorted(set(re.findall(r"\w+_0", str(refusal.value)))) == short
    assert "a prompt of 193 tokens and may write 70, 263 in all" in str(refusal.value)
    await require_room(rules, team(context, overflow="unknown"), PROBLEMS)


async def test_a_model_that_has_to_ask_its_server_is_asked():
    class Asking(Words):
        async def learn_context(self):
            self.context = 150

    asking = agent("solver", None, 100)
    asking.model = Asking(None)
    assert needs(solve(), {"solver_0": asking}, PROBLEMS) == []
    with pytest.raises(ConfigError):
        await require_room(solve(), {"solver_0": asking}, PROBLEMS)
