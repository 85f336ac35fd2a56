"""`mars-env view RUN --follow`: the page of a run, served and made again as episodes are finished."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from mars_env.net import Server, start_server
from mars_env.rollout.store import TREES


class FollowedRun:
    """Serves the page of a run that may still be played."""

    def __init__(self, run: Path, render: Callable[[str], str]) -> None:
        self._trees, self._render = run / TREES, render
        self._page = ("", "")
        self._lock = asyncio.Lock()
        self._server: Server | None = None

    @property
    def url(self) -> str:
        """The address, once it is served."""
        return self._server.url if self._server is not None else ""

    async def start(self, host: str, port: int) -> None:
        """Start to serve; port 0 is a free one."""
        app = web.Application()
        app.add_routes([web.get("/", self._get_page), web.get("/version", self._get_version)])
        self._server = await start_server(app, host, port, grace=1.0)

    async def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            await self._server.close()

    def _version(self) -> str:
        """It changes when a tree is finished."""
        return str(self._trees.stat().st_size) if self._trees.exists() else "0"

    async def _get_page(self, _: web.Request) -> web.Response:
        async with self._lock:
            version = self._version()
            if version != self._page[0]:
                self._page = version, await asyncio.to_thread(self._render, version)
            return web.Response(text=self._page[1], content_type="text/html")

    async def _get_version(self, _: web.Request) -> web.Response:
        return web.Response(text=self._version())
