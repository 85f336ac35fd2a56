"""Tools of real MCP servers, over stdio and over HTTP: no call makes a turn UNKNOWN."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tool_calls import call, writes

from mars_env.agents import Solver, mcp_tools
from mars_env.errors import ConfigError

pytest.importorskip("mcp", reason="needs mcp")

SERVER = """
import os
import sys
import time

from mcp.server.mcpserver import MCPServer

server = MCPServer("numbers")
calls = []


@server.tool()
def add(a: int, b: int = 1) -> int:
    "Add two integers."
    return a + b


@server.tool()
def times(a: float, b: float) -> float:
    "Multiply."
    return a * b


@server.tool()
def fail() -> str:
    "Fail."
    raise ValueError("no luck")


@server.tool()
def die() -> str:
    "End the server."
    os._exit(3)


@server.tool()
def hang() -> None:
    "Hang, with all of the server."
    time.sleep(600)


@server.tool()
def count() -> int:
    "Count the calls."
    calls.append(1)
    return len(calls)


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


@pytest.fixture
def command(tmp_path):
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return [sys.executable, str(path)]


@pytest.fixture
def address(command):
    with subprocess.Popen([*command, "http"], stdout=subprocess.PIPE, text=True) as process:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        process.kill()


@pytest.fixture(params=["command", "address"])
def server(request):
    return request.getfixturevalue(request.param)


async def turn(tools, *texts):
    [action] = await Solver(writes(*texts, "42"), tools=tools).act({"problem": "?"}, 1, 0)
    return action


def outcomes(action):
    return [(each.name, each.outcome) for each in action.calls]


async def test_an_agent_uses_the_tools_of_a_server(server):
    tools = mcp_tools(server)
    assert tools[0].name == "add" and tools[0].parameters["required"] == ["a"]
    action = await turn(tools, call("add", a=41) + call("add", a="x") + call("fail"), call("add", a=1, b=2))
    assert outcomes(action) == [("add", "ok"), ("add", "error"), ("fail", "error"), ("add", "ok")]
    first, second, third, last = [each.result for each in action.calls]
    assert (first, last) == ("42", "3") and second.startswith("Error: ") and "no luck" in third
    assert action.text == "42"


async def test_a_result_that_breaks_its_schema_is_an_error_of_the_call(server):
    wrong = ({"a": 1e308, "b": 10}, {"a": "nan", "b": 1}, {"a": float("nan"), "b": 1})
    calls = [call("times", **arguments) for arguments in wrong]
    action = await turn(mcp_tools(server), *calls, call("add", a=1))
    assert outcomes(action) == [("times", "error")] * 3 + [("add", "ok")] and not action.interrupted


async def test_the_turns_share_no_server(command):
    tools = mcp_tools(command)
    first = await turn(tools, call("count"), call("count"), call("die"), call("count"))
    assert outcomes(first) == [("count", "ok"), ("count", "ok"), ("die", "error"), ("count", "ok")]
    assert [each.result for each in first.calls if each.name == "count"] == ["1", "2", "1"]
    second = await turn(tools, call("count"))
    assert [each.result for each in second.calls] == ["1"]


async def test_a_call_that_takes_too_long_costs_itself(command, monkeypatch):
    monkeypatch.setattr("mars_env.agents.mcp._CHECK_SECONDS", 1)
    tools = mcp_tools(command, seconds=4)  # far longer than the other calls take
    action = await turn(tools, call("hang"), call("add", a=1))
    assert outcomes(action) == [("hang", "error"), ("add", "ok")]


async def test_a_server_that_cannot_be_started_is_a_fault(command):
    tools = mcp_tools(command)
    Path(command[1]).write_text("raise SystemExit")
    action = await turn(tools, call("add", a=1))
    assert action.interrupted and outcomes(action) == [("add", "fault")]


async def test_a_server_that_cannot_be_reached_again_is_a_fault(address):
    action = await turn(mcp_tools(address), call("die"))
    assert action.interrupted and outcomes(action) == [("die", "fault")]


@pytest.mark.parametrize("wrong", [["no-such-program"], "sleep 60", "http://127.0.0.1:9/mcp"])
def test_a_server_that_is_not_there_is_refused(wrong, monkeypatch):
    monkeypatch.setattr("mars_env.agents.mcp._START_SECONDS", 1)
    with pytest.raises(ConfigError):
        mcp_tools(wrong)
