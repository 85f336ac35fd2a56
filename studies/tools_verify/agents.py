r"""The language of subset sums with a calculator, and the agents that speak it.

A Verifier's turn on the solution 3 9 15 where the target is 28: it calls, reads the result, and reports.

    <tool_call> 28 3 9 15 </tool_call>      result: 1       short 1 / Correctness: Wrong

One agent that revises calls with each try, and ends with the numbers alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from mars_env.agents import RoleAgent
from mars_env.agents.tool_turn import NO_CALLS_LEFT
from mars_env.miniature.protocol import END, RIGHT, SOLVE, SPECIAL, WRONG
from mars_env.models import HFModel
from mars_env.types import Action, Agent, Observation, Sampling
from studies.sums import protocol
from studies.sums.protocol import SumsAgent

CALL, CALLED = '<tool_call>\n{"name": "subtract", "arguments": {"numbers": "', '"}}\n</tool_call>'
RESULT, GO_ON = "\n\nUser: <tool_response>\n", "\n</tool_response>\n\nAssistant:"
MINUS, ALONE = " -", " alone"
VOCABULARY: Final = (*protocol.VOCABULARY, MINUS, ALONE, CALL, CALLED, RESULT, GO_ON, NO_CALLS_LEFT)
_PIECES = sorted(VOCABULARY[len(SPECIAL) :], key=len, reverse=True)
PATTERN: Final = "|".join(map(re.escape, _PIECES))
CALL_TOKENS: Final = protocol.ANSWER_TOKENS + 3
REPORT_TOKENS: Final = 4


def subtract(numbers: str) -> str:
    """Subtract all other numbers from the first one; differences beyond 99 are shown as 99."""
    first, *others = map(int, numbers.split())
    left = first - sum(others)
    return f"{MINUS if left < 0 else ''} {min(abs(left), protocol.LARGEST)}"


def call(statement: str, answer: Sequence[int]) -> str:
    """A message that calls the calculator on an answer."""
    target = protocol.read_statement(statement)[1]
    return f"{CALL}{protocol.stream([target, *answer])}{CALLED}"


def result(text: str) -> str:
    """A message, and what the model reads after it."""
    return f"{text}{END}{RESULT}{subtract(text.removeprefix(CALL).removesuffix(CALLED))}{GO_ON}"


def report(statement: str, answer: Sequence[int]) -> str:
    """The honest report on an answer."""
    numbers, target = protocol.read_statement(statement)
    if len({*answer}) < len(answer) or not {*answer} <= {*numbers}:
        return protocol.MISSING + WRONG
    left = target - sum(answer)
    if left == 0:
        return protocol.EXACT + RIGHT
    return (protocol.SHORT if left > 0 else protocol.OVER) + protocol.NUMBERS[abs(left)] + WRONG


def alone_prompt(observation: Observation) -> str:
    """What the agent that revises reads."""
    return protocol.prompt("solver", observation).removesuffix(SOLVE) + ALONE


class Reviser(RoleAgent):
    """Tries and calls the calculator within one turn, until it is content or no calls are left."""

    def __init__(self, model: HFModel, max_calls: int) -> None:
        limit = Sampling(max_tokens=(max_calls + 1) * CALL_TOKENS + protocol.ANSWER_TOKENS)
        settings = {"sampling": limit, "tools": [subtract], "max_calls": max_calls, "thinking": None}
        super().__init__(model, policy=model.name, prompt=alone_prompt, **settings)

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        """Answers as the grader reads them."""
        actions = await super().act(observation, n, seed)
        return [replace(action, text=protocol.shown(action.text)) for action in actions]


def agent(name: str, model: HFModel) -> Agent:
    """A seat of the team."""
    role = name.partition("_")[0]
    if role != "verifier":
        return SumsAgent(role, model, policy=model.name)
    limit = Sampling(max_tokens=CALL_TOKENS + REPORT_TOKENS)
    read = partial(protocol.prompt, "verifier")
    return RoleAgent(
        model, policy=model.name, sampling=limit, prompt=read, thinking=None, tools=[subtract], max_calls=1
    )
