"""Tools of a server of the Model Context Protocol (MCP), through its official package."""

import asyncio
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final

from mars_env.agents.tools import Tool
from mars_env.errors import ConfigError, ToolError, explained
from mars_env.lazy import needs
from mars_env.sync import end_tasks, run_sync
from mars_env.text import brief, describe_error
from mars_env.types import Observation

Server = str | Sequence[str]
"""The address of a server, or the command that starts one."""

_START_SECONDS = 60.0
"""How long a server may take to start."""

_CHECK_SECONDS: Final = 5.0
"""How long a server may take to list its tools after a call that failed."""


def mcp_tools(server: Server, *, seconds: float = 30.0, characters: int = 10_000) -> list[Tool]:
    """The tools of an MCP server.

        Solver(model, tools=mcp_tools(["python", "my_server.py"]))

    Each turn that calls one has its own connection, and a command is started anew for each. What a call does
    is an error that the model reads. The turn is UNKNOWN only if the server cannot be reached or started
    before the first call, or after one that failed. `seconds` and `characters` are those of `Tool`. Here, a
    server that cannot be reached or started, or has no tools, is a `ConfigError`.
    """
    with needs("mcp", "tools of MCP servers need the package mcp"):
        import mcp as mcp
    if isinstance(server, str) and "://" not in server:
        raise ConfigError(f"mcp_tools: give a command as a list, such as {server.split()}")
    with explained(ConfigError, "mcp_tools", ToolError):
        listed = run_sync(_list_tools(server))
    if not listed:
        raise ConfigError("mcp_tools: the server has no tools")

    def session(_: Observation) -> _Session:
        return _Session(server, seconds)

    return [
        Tool(
            name=tool.name,
            description=tool.description or "",
            parameters=tool.input_schema,
            run=partial(_run, tool.name),
            session=session,
            seconds=seconds + 2 * _CHECK_SECONDS + _START_SECONDS,  # a call, and what follows one that fails
            characters=characters,
        )
        for tool in listed
    ]


class _Session:
    """A turn's connection to a server; one that does not answer after a failed call is opened again."""

    def __init__(self, server: Server, seconds: float) -> None:
        self._server, self._seconds = server, seconds
        self._stack = AsyncExitStack()
        self._client: Any = None

    async def __aenter__(self) -> "_Session":
        self._client = await self._stack.enter_async_context(_connection(self._server))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """The result of a call; whatever goes wrong with it is an error, after which the next call works."""
        client = self._client
        try:
            async with asyncio.timeout(self._seconds):
                return await client.call_tool(tool, dict(arguments))
        except Exception as error:  # of the arguments, of the result, or because the server has ended
            late = isinstance(error, TimeoutError)
            why = f"it took longer than {self._seconds:g} seconds" if late else str(error)
            state = "" if await self._answers(client) else "; the server had to be started again"
            raise RuntimeError(f"{why}{state}") from error

    async def _answers(self, client: Any) -> bool:
        """Whether a client's server still answers. If not, there is then another client, or a `ToolError`."""
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                await client.session.list_tools()
        except Exception:  # whatever the transport raises
            if client is self._client:  # not if another call has failed at the same time
                await self._stack.aclose()
                await self.__aenter__()
            return False
        return True


async def _run(tool: str, session: _Session, arguments: Mapping[str, Any]) -> str:
    result = await session.call(tool, arguments)
    text = "\n".join(getattr(item, "text", f"({item.type})") for item in result.content)
    if result.is_error:
        raise RuntimeError(text)
    return text or "(no output)"


async def _list_tools(server: Server) -> list[Any]:
    async with _connection(server) as client:
        page = await client.list_tools()
        listed = list(page.tools)
        while page.next_cursor:
            page = await client.list_tools(cursor=page.next_cursor)
            listed += page.tools
    return listed


@asynccontextmanager
async def _connection(server: Server) -> AsyncIterator[Any]:
    """A client that is connected to a server, or a `ToolError`.

    It is opened in a task of its own, because the package ends the task that opened it when the server dies.
    """
    opened = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(_connect(server, opened))
    try:
        yield await opened
    finally:
        await end_tasks([task])


async def _connect(server: Server, opened: asyncio.Future[Any]) -> None:
    """Connect, check that the server lists its tools, and stay until cancelled or until the server ends."""
    from mcp import Client, StdioServerParameters, stdio_client

    target: Any = server
    if not isinstance(server, str):
        target = stdio_client(StdioServerParameters(command=server[0], args=list(server[1:])))
    why = "it ended"
    try:
        async with asyncio.timeout(_START_SECONDS) as opening, Client(target) as client:
            await client.list_tools()
            opening.reschedule(None)
            opened.set_result(client)
            await asyncio.Event().wait()
    except Exception as error:  # the package raises what the transport raises
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        why = describe_error(error)
    finally:
        if not opened.done():
            name = brief(server if isinstance(server, str) else shlex.join(server))
            opened.set_exception(ToolError(f"the MCP server {name} gives no answer: {why}"))
