"""Tools of a server of the Model Context Protocol (MCP), through its official package."""

import asyncio
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from mars_env.agents.tools import Tool, always
from mars_env.errors import ConfigError, MarsError
from mars_env.lazy import needs
from mars_env.text import describe_error, shown

_INVALID: Final = -32602
"""The protocol's code of arguments that do not fit: the model's own error."""


@asynccontextmanager
async def mcp_tools(
    server: str | Sequence[str], *, seconds: float = 30.0, characters: int = 10_000
) -> AsyncIterator[list[Tool]]:
    """The tools of an MCP server, for agents that act on this event loop while the context is open.

        async with mcp_tools("http://localhost:8000/mcp") as tools:
            await mars_env.aevaluate("aime-solve", agents={"solver": Solver(model, tools=tools)})

    What a tool says of its errors goes to the model. A server that ends or cannot be reached in the
    middle makes the turn UNKNOWN.

    Args:
        server: The address of a server, or the command that starts one, which then ends with the context.
        seconds: How long one call may take.
        characters: How much of a result the model reads.

    Raises:
        ConfigError: The server cannot be reached or started, or has no tools.
    """
    with needs("mcp", "tools of MCP servers need the package mcp"):
        from mcp import Client, StdioServerParameters, stdio_client
    name = server if isinstance(server, str) else shlex.join(server)
    target: Any = server
    if not isinstance(server, str):
        target = stdio_client(StdioServerParameters(command=server[0], args=list(server[1:])))
    session = _Session(shown(name))
    # The package ends the task that opened it when the server dies, so that is a task of its own.
    session.task = task = asyncio.create_task(session.serve(Client(target)))
    try:
        first: set[asyncio.Future[Any]] = {task, session.tools}
        await asyncio.wait(first, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not session.tools.done():
            raise ConfigError(f"the MCP server {session.name} gives no answer: {session.fault or 'silence'}")
        yield [
            Tool(
                name=each.name,
                description=each.description or "",
                parameters=each.input_schema,
                start=always(partial(session.run, each.name)),
                seconds=seconds,
                characters=characters,
            )
            for each in session.tools.result()
        ]
    finally:
        task.cancel()
        await asyncio.wait({task})


class _Session:
    """A connection to a server, from its opening to its end, which is the end of its task."""

    task: asyncio.Task[None]

    def __init__(self, name: str) -> None:
        self.name, self.fault = name, ""
        self.loop = asyncio.get_running_loop()
        self.tools: asyncio.Future[list[Any]] = self.loop.create_future()

    async def serve(self, opening: Any) -> None:
        """Open the connection, list the tools, and stay until cancelled or until the server ends."""
        try:
            async with opening as self.client:
                listed = await self.client.list_tools()
                found = list(listed.tools)
                while listed.next_cursor:
                    listed = await self.client.list_tools(cursor=listed.next_cursor)
                    found += listed.tools
                self.tools.set_result(found)
                await asyncio.Event().wait()
        except Exception as error:  # the package raises what the transport raises
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            self.fault = describe_error(error)

    async def run(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Run one call.

        Raises:
            MarsError: The server is lost; or this is another event loop than the session's.
        """
        from mcp import MCPError

        if asyncio.get_running_loop() is not self.loop:
            raise ConfigError("tools of an MCP server work on the event loop that opened them: use aevaluate")
        call = asyncio.ensure_future(self.client.call_tool(tool, dict(arguments)))
        try:
            await asyncio.wait({call, self.task}, return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                raise MarsError(f"the MCP server {self.name} was lost: {self.fault}")
            result = call.result()
        except MCPError as error:
            if error.code == _INVALID:
                return f"Error: {error}"
            raise MarsError(f"the MCP server {self.name} failed in the tool {tool}: {error}") from error
        finally:
            call.cancel()
        parts = [getattr(part, "text", f"({part.type})") for part in result.content]
        return "\n".join(["Error:"] * result.is_error + parts) or "(no output)"
