"""Figures of a run for loggers and for Prometheus, while it plays."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mars_env.loggers import Logger
from mars_env.rollout.monitor.monitor import Monitor

if TYPE_CHECKING:
    from aiohttp import web

_SAMPLE_SECONDS = 0.1


@asynccontextmanager
async def reporting(
    monitor: Monitor, *, logger: Logger | None = None, every: float = 10.0, port: int | None = None
) -> AsyncIterator[int | None]:
    """While this is open, figures go to a logger, and can be read on a port of this machine.

    Args:
        monitor: What is reported.
        logger: Gets the figures at intervals and at the end; the step is the number of finished turns.
        every: Seconds between two logs.
        port: Serve the figures at ``http://127.0.0.1:<port>/metrics`` in Prometheus' text format; 0 for
            any free port.

    Yields:
        The port at which figures are served.
    """
    if logger is not None:
        logger.start(0)
    sampling = asyncio.create_task(_sample_often(monitor))
    task = asyncio.create_task(_log_often(monitor, logger, every)) if logger is not None else None
    runner = await _served(monitor, port) if port is not None else None
    try:
        yield runner.addresses[0][1] if runner is not None else None
    finally:
        sampling.cancel()
        if runner is not None:
            await runner.cleanup()
        if task is not None and logger is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            _log(monitor, logger)
            logger.close()


def prometheus_text(figures: Mapping[str, float]) -> str:
    r"""Figures in Prometheus' text format (version 0.0.4).

    Example:
        >>> print(prometheus_text({"unknown/lost a \"worker\"": 2.0, "idle_share": 0.5}), end="")
        # TYPE mars_env_unknown gauge
        mars_env_unknown{of="lost a \"worker\""} 2.0
        # TYPE mars_env_idle_share gauge
        mars_env_idle_share 0.5
    """
    lines, named = [], set()
    for figure, value in figures.items():
        name, slash, of = figure.partition("/")
        name = "mars_env_" + re.sub(r"\W", "_", name, flags=re.ASCII)
        if name not in named:
            named.add(name)
            lines.append(f"# TYPE {name} gauge\n")
        of = of.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        lines.append(f'{name}{{of="{of}"}} {value}\n' if slash else f"{name} {value}\n")
    return "".join(lines)


async def _sample_often(monitor: Monitor) -> None:
    while True:
        await asyncio.sleep(_SAMPLE_SECONDS)
        monitor.sample()


async def _log_often(monitor: Monitor, logger: Logger, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        _log(monitor, logger)


def _log(monitor: Monitor, logger: Logger) -> None:
    figures = monitor.figures()
    logger.log(int(figures["turns/finished"]), {f"rollout/{name}": v for name, v in figures.items()})


async def _served(monitor: Monitor, port: int) -> web.AppRunner:
    from aiohttp import web  # imported only if it is used

    async def metrics(request: web.Request) -> web.Response:
        text = prometheus_text(monitor.figures())
        return web.Response(text=text, content_type="text/plain", charset="utf-8")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner
