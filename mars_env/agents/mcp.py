"""Tools of a server of the Model Context Protocol (MCP), through its official package."""

import asyncio
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from mars_env.agents.tools import Tool, always
from mars_env.errors import ConfigError, MarsError
from mars_env.lazy import needs
from mars_env.sync import end_tasks
from mars_env.text import describe_error, shown


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
        from mcp.types import INVALID_PARAMS
    name = shown(server if isinstance(server, str) else shlex.join(server))
    target: Any = server
    if not isinstance(server, str):
        target = stdio_client(StdioServerParameters(command=server[0], args=list(server[1:])))
    client, loop = Client(target), asyncio.get_running_loop()
    listed: asyncio.Future[list[Any]] = loop.create_future()

    async def serve() -> None:
        """Open the connection, list the tools, and stay until cancelled or until the server ends."""
        try:
            async with asyncio.timeout(seconds) as opening, client:
                page = await client.list_tools()
                found = list(page.tools)
                while page.next_cursor:
                    page = await client.list_tools(cursor=page.next_cursor)
                    found += page.tools
                opening.reschedule(None)
                listed.set_result(found)
                await asyncio.Event().wait()
        except Exception as error:  # the package raises what the transport raises
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            if not listed.done():
                why = f"the MCP server {name} gives no answer: {describe_error(error)}"
                listed.set_exception(ConfigError(why))

    async def call(tool: str, arguments: Mapping[str, Any]) -> str:
        if asyncio.get_running_loop() is not loop:
            raise ConfigError("tools of an MCP server work on the event loop that opened them: use aevaluate")
        try:
            result: Any = await client.call_tool(tool, dict(arguments))
        except Exception as error:  # a tool's own errors are results
            if getattr(error, "code", 0) == INVALID_PARAMS:  # the model's own error
                raise
            raise MarsError(f"the MCP server {name} failed in the tool {tool}: {error}") from error
        parts = [getattr(part, "text", f"({part.type})") for part in result.content]
        if result.is_error:
            raise RuntimeError("\n".join(parts))
        return "\n".join(parts) or "(no output)"

    # The package ends the task that opened it when the server dies, so that is a task of its own.
    task = asyncio.create_task(serve())
    try:
        yield [
            Tool(
                name=each.name,
                description=each.description or "",
                parameters=each.input_schema,
                start=always(partial(call, each.name)),
                seconds=seconds,
                characters=characters,
            )
            for each in await listed
        ]
    finally:
        await end_tasks([task])
