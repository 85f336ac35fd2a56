"""Tools of real MCP servers: over stdio, over HTTP, and of one that dies."""

from __future__ import annotations

import subprocess
import sys

import pytest
from messages import raises
from tool_calls import call, writes

from mars_env.agents import Solver, mcp_tools
from mars_env.errors import ConfigError
from mars_env.sync import run_sync

pytest.importorskip("mcp", reason="needs mcp")

SERVER = """
import os
import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("numbers")


@server.tool()
def add(a: int, b: int = 1) -> int:
    "Add two integers."
    return a + b


@server.tool()
def fail() -> str:
    "Fail."
    raise ValueError("no luck")


@server.tool()
def die() -> str:
    "End the server."
    os._exit(3)


if sys.argv[1:]:
    import socket

    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run([listener])
else:
    server.run("stdio")
"""


@pytest.fixture(params=["stdio", "http"])
def server(request, tmp_path):
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    if request.param == "stdio":
        yield [sys.executable, str(path)]
        return
    with subprocess.Popen([sys.executable, path, "http"], stdout=subprocess.PIPE, text=True) as process:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        process.kill()


async def test_an_agent_uses_the_tools_of_a_server(server):
    async with mcp_tools(server) as tools:
        assert [each.name for each in tools] == ["add", "fail", "die"]
        assert tools[0].parameters["required"] == ["a"]
        calls = call("add", a=41) + call("add", a="x") + call("fail")
        agent = Solver(writes(calls, call("add", a=1, b=2), "42"), tools=tools)
        [action] = await agent.act({"problem": "?"}, 1, 0)
    assert [done.result for done in action.calls if done.completion == 1] == ["3"]
    first, *wrong = [done.result for done in action.calls if done.completion == 0]
    assert first == "42" and all(text.startswith("Error: ") for text in wrong)
    assert [done.outcome for done in action.calls] == ["ok", "error", "error", "ok"]
    assert "no luck" in wrong[1] and not action.interrupted


async def test_a_server_that_dies_makes_the_turn_unknown(server):
    async with mcp_tools(server) as tools:
        [action] = await Solver(writes(call("die"), "42"), tools=tools).act({"problem": "?"}, 1, 0)
        assert action.interrupted and action.calls[0].outcome == "fault"
        [action] = await Solver(writes(call("add", a=1), "42"), tools=tools).act({"problem": "?"}, 1, 0)
        assert action.interrupted


@pytest.mark.parametrize("wrong", [["no-such-program"], ["sleep", "60"], "http://127.0.0.1:9/mcp"])
async def test_a_server_that_is_not_there_is_refused(wrong):
    with pytest.raises(ConfigError):
        async with mcp_tools(wrong, seconds=2):
            pass


async def test_another_event_loop_is_refused(server):
    async with mcp_tools(server) as tools, tools[0].start({}) as run:
        with raises(ConfigError):
            await _elsewhere(run)


async def _elsewhere(run):
    import asyncio

    return await asyncio.to_thread(run_sync, run({"a": 1}))
