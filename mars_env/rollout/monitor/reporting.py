"""Metrics of a run for loggers and for Prometheus, while it plays."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from aiohttp import web

from mars_env.loggers import Logger
from mars_env.net import Server, start_server
from mars_env.rollout.monitor.monitor import Monitor
from mars_env.sync import end_tasks
from mars_env.text import describe_error
from mars_env.text import logger as logger_of

log = logger_of(__name__)

_SAMPLE_SECONDS = 0.1


@asynccontextmanager
async def reporting(
    monitor: Monitor, *, logger: Logger | None = None, every: float = 10.0, port: int | None = None
) -> AsyncIterator[int | None]:
    """While this is open, metrics go to a logger, and can be read on a port of this machine.

    Args:
        monitor: What is reported.
        logger: Gets the metrics every so many seconds and at the end; the step is the number of finished
            turns. What it raises while the run plays is a warning; the run goes on.
        every: Seconds between two logs.
        port: Serve the metrics at ``http://127.0.0.1:<port>/metrics`` in Prometheus' text format; 0 for
            any free port. Yields the port; a ConfigError if it cannot be used.
    """
    if logger is not None:
        logger.start(0)
    tasks = [asyncio.create_task(_repeat(monitor.sample, _SAMPLE_SECONDS))]
    if logger is not None:
        tasks.append(asyncio.create_task(_repeat(partial(_log, monitor, logger), every)))
    server = None
    try:
        server = await _served(monitor, port) if port is not None else None
        yield int(server.url.rpartition(":")[2]) if server is not None else None
    finally:
        await end_tasks(tasks)
        if server is not None:
            await server.close()
        if logger is not None:
            _log(monitor, logger)
            _tried(logger.close)


def prometheus_text(figures: Mapping[str, float]) -> str:
    r"""Metrics in Prometheus' text format (version 0.0.4).

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


async def _repeat(act: Callable[[], None], every: float) -> None:
    while True:
        await asyncio.sleep(every)
        act()


def _log(monitor: Monitor, logger: Logger) -> None:
    figures = monitor.figures()
    named = {f"rollout/{name}": value for name, value in figures.items()}
    _tried(lambda: logger.log(int(figures["turns/finished"]), named))


def _tried(act: Callable[[], None]) -> None:
    try:
        act()
    except Exception as error:  # a user's logger may raise anything; it must not cost the run
        log.warning("the metrics of the run could not be logged: %s", describe_error(error))


async def _served(monitor: Monitor, port: int) -> Server:
    async def metrics(request: web.Request) -> web.Response:
        text = prometheus_text(monitor.figures())
        return web.Response(text=text, content_type="text/plain", charset="utf-8")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return await start_server(app, port=port)
