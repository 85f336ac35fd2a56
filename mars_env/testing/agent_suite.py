"""The contract suite for agents: the promises that a user's own `Agent` must keep."""

import asyncio
import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mars_env import checks
from mars_env.testing.model_suite import require_consistent
from mars_env.types import Action, Agent, Observation, Sampling

CONCURRENCY = 16

OBSERVATIONS: Mapping[str, Observation] = MappingProxyType(
    {
        "solver": {"problem": "What is 2 + 2?"},
        "verifier": {"problem": "What is 2 + 2?", "solution": "It is 5.", "truncated": 0},
        "corrector": {
            "problem": "What is 2 + 2?", "solution": "It is", "truncated": 1,
            "report": "The solution is not finished.\nCorrectness: Wrong",
        },
        "coder": {
            "problem": "Print the first line of the input.", "kind": "code", "mode": "refine", "depth": 1,
            "solution": "print()", "truncated": 0, "feedback": "The first failure: expected 4.",
        },
    }
)  # fmt: skip
"""Observations of the library's agents, by role."""


async def check_agent(
    agent: Agent, observation: Observation, *, reproducible: bool = True, trainable: bool = False
) -> None:
    """Check an agent against the contract of `mars_env.types.Agent`, on an observation as in `OBSERVATIONS`.

    A `reproducible` one gives the same actions for the same seed; those of a `trainable` one have completions
    with token ids and log-probabilities.
    """
    assert isinstance(agent, Agent), f"an agent has an attribute policy and an async act(), not {agent!r}"
    assert isinstance(agent.policy, str) and agent.policy, f"policy must be a name, got {agent.policy!r}"
    for n in (1, 3):
        for action in await _act(agent, observation, n, seed=1):
            _check_action(action, trainable=trainable)
    if reproducible:
        first, again = [await _act(agent, observation, 2, seed=7) for _ in range(2)]
        assert _texts(first) == _texts(again), "the same seed gives different actions"
    together = await asyncio.gather(*(_act(agent, observation, 1, seed) for seed in range(CONCURRENCY)))
    if reproducible:
        alone = await _act(agent, observation, 1, seed=CONCURRENCY - 1)
        assert _texts(alone) == _texts(together[-1]), "an action depends on others of the same call"


def _check_action(action: Any, *, trainable: bool = False) -> None:
    is_action = isinstance(action, Action) and isinstance(action.text, str)
    assert is_action, f"expected an Action with a string as its text, got {action!r}"
    checks.valid_action(action)
    for completion in action.completions:
        sampled = max(completion.completion_tokens, len(completion.token_ids))
        # An agent's own limit is not known here: what it has cut off ended there.
        limit = sampled if completion.finish_reason == "length" and sampled else 10**9
        limits = Sampling(temperature=completion.temperature, max_tokens=limit)
        require_consistent(completion, limits, exact=trainable)
    assert action.completions or not trainable, "without completions an action cannot be trained on"


async def _act(agent: Agent, observation: Observation, n: int, seed: int) -> list[Action]:
    reply: Any = agent.act(MappingProxyType(dict(observation)), n, seed)
    assert inspect.isawaitable(reply), "act() is not async: write `async def`"
    actions: list[Action] = await reply
    assert len(actions) == n, f"requested {n} actions, got {len(actions)}"
    return actions


def _texts(actions: list[Action]) -> list[str]:
    return [action.text for action in actions]
