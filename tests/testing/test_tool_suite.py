"""The contract suite for tools passes the library's own and refuses those that break a promise."""

import asyncio
import contextlib

import pytest
import sandboxes
from tool_calls import add

import mars_env
from mars_env.agents import Tool, public_tests_tool, python_tool, tool
from mars_env.errors import SandboxError
from mars_env.testing import check_tool


async def test_functions_pass():
    await check_tool(add, {"a": 1})
    await check_tool(tool(add, seconds=5), {"a": 1, "b": 2})


async def test_the_tools_of_the_library_pass():
    sandboxes.need_a_sandbox()
    problems = mars_env.load_problems("programs", n=3)
    seen = {"problem": problems[0].statement}
    await check_tool(python_tool(), {"code": "print(6 * 7)"})
    await check_tool(public_tests_tool(problems), {"code": "print(1)"}, observation=seen)


def made(run, **fields):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    return Tool("t", **{"description": "Count.", "parameters": schema, "run": run} | fields)


async def number(session, given):
    return 4


async def fault(session, given):
    if given != {"a": 1}:
        raise SandboxError("lost")
    return "4"


counts = iter(range(10**6))


async def shared(session, given):
    return str(next(counts))


async def good(session, given):
    return "4"


@pytest.mark.parametrize(
    "broken",
    [
        made(number), made(fault), made(shared), made(good, description=""),
        made(good, parameters={}), made(good, parameters={"type": "object", "properties": {1: object()}}),
    ],
)  # fmt: skip
async def test_a_broken_promise_is_found(broken):
    with pytest.raises(AssertionError):
        await check_tool(broken, {"a": 1})


async def test_a_tool_that_is_lost_with_a_cancelled_turn_is_found():
    class Once:
        open = False

        @contextlib.asynccontextmanager
        async def session(self, observation):
            if self.open:
                raise SandboxError("in use")
            self.open = True
            yield
            self.open = False

    async def slow(session, given):
        await asyncio.sleep(0.001)
        return "4"

    with pytest.raises(SandboxError):
        await check_tool(made(slow, session=Once().session), {"a": 1})
