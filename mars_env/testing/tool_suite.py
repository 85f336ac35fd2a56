"""The contract suite for tools: the promises that a user's own `Tool` must keep."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from mars_env.agents.tool_turn import FAULTS
from mars_env.agents.tools import Tool, as_tool
from mars_env.errors import explained
from mars_env.identity import identity_of
from mars_env.testing.agent_suite import OBSERVATIONS
from mars_env.types import Observation

TURNS = 16  # at the same time


async def check_tool(
    tool: Tool | Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    observation: Observation = OBSERVATIONS["solver"],
    same: bool = True,
) -> None:
    """Check a tool, or a typed function that becomes one, by calls with arguments that succeed.

    With `same`, their results are the same.
    """
    tool = as_tool(tool)
    plain = f"the schema is plain data, not {tool.schema!r:.300}"
    with explained(AssertionError, plain, TypeError, ValueError):
        assert json.loads(json.dumps(tool.schema)) == tool.schema, plain
    assert tool.description, "the description tells the model what the tool does, and there is none"
    assert tool.parameters.get("type") == "object", "the parameters are the JSON schema of an object"
    assert identity_of(tool) == identity_of(tool), "what identifies the tool changes"
    first = await _called(tool, observation, arguments)
    results = await asyncio.gather(*(_called(tool, observation, arguments) for _ in range(TURNS)))
    assert not same or {*results} == {first}, f"{TURNS} turns at the same time have other results than one"
    await _check_wrong(tool, observation)
    await _check_cancellation(tool, observation, arguments)


async def _called(tool: Tool, observation: Observation, arguments: Mapping[str, Any]) -> str:
    async with tool.session(observation) as session, asyncio.timeout(tool.seconds):
        result: Any = await tool.run(session, arguments)
    assert isinstance(result, str), f"a result is a string for the model, got {result!r:.100}"
    return result


async def _check_wrong(tool: Tool, observation: Observation) -> None:
    unknown = {"an argument that no tool has": None}
    for wrong in (unknown, {name: object() for name in tool.parameters.get("properties", {})}):
        [result] = await asyncio.gather(_called(tool, observation, wrong), return_exceptions=True)
        assert not isinstance(result, FAULTS), f"wrong arguments are no fault of the tool, got {result!r:.99}"


async def _check_cancellation(tool: Tool, observation: Observation, arguments: Mapping[str, Any]) -> None:
    task = asyncio.ensure_future(_called(tool, observation, arguments))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled() or not task.exception(), f"a cancelled call raised {task.exception()!r}"
    await _called(tool, observation, arguments)
