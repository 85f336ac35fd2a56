"""The contract suite for tools passes the library's own."""

import sandboxes
from tool_calls import add

import mars_env
from mars_env.agents import public_tests_tool, python_tool, tool
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
