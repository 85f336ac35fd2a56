"""`mars-env view RUN --follow`: the page of a run, served and made again as episodes are finished."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from mars_env.net import Service, start_server
from mars_env.rollout.store import TREES


class FollowedRun(Service):
    """Serves the page of a run that may still be played."""

    def __init__(self, run: Path, render: Callable[[str], str]) -> None:
        self._trees, self._render = run / TREES, render
        self._page = ("", "")
        self._lock = asyncio.Lock()

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Start to serve."""
        app = web.Application()
        app.add_routes([web.get("/", self._get_page), web.get("/version", self._get_version)])
        self._server = await start_server(app, host, port, grace=1.0)
        self.url = self._server.url

    def _version(self) -> str:
        return str(self._trees.stat().st_size) if self._trees.exists() else "0"

    async def _get_page(self, _: web.Request) -> web.Response:
        async with self._lock:
            version = self._version()
            if version != self._page[0]:
                self._page = version, await asyncio.to_thread(self._render, version)
            return web.Response(text=self._page[1], content_type="text/html")

    async def _get_version(self, _: web.Request) -> web.Response:
        return web.Response(text=self._version())
