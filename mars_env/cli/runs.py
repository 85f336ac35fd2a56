"""`mars-env compare` and `mars-env view`: reading stored runs."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from aiohttp import web

from mars_env import api
from mars_env.cli import options
from mars_env.cli.screen import Screen, say, say_json
from mars_env.cli.stored import stored_report
from mars_env.cli.streams import STREAM, write_to
from mars_env.errors import ConfigError
from mars_env.net import Service, start_server
from mars_env.rollout import Run, groups_of, read_run
from mars_env.rollout.store import TREES
from mars_env.viewer import Display, render_page, write_page
from mars_env.viewer.page import plain_note


def compare(
    run_a: Path,
    run_b: Path,
    json_output: options.Json = False,
    latex: Annotated[bool, typer.Option("--latex")] = False,
) -> None:
    """Paired differences between two runs, B minus A, with 95% intervals.

    Args:
        run_a: Directory of a run.
        run_b: Directory of another run of the same problems.
        json_output: The comparison as JSON.
        latex: The comparison as a LaTeX table.
    """
    if json_output and latex:
        raise ConfigError("--json and --latex are two forms of one comparison: give one of them")
    comparison = api.compare(run_a, run_b)
    if json_output:
        say_json(comparison.json_text())
    elif latex:
        say(comparison.latex().rstrip())
    else:
        Screen().print(comparison)


def view(
    run: Path,
    out: Path | None = None,
    advantage: Annotated[
        Literal["group_normalised", "mean_centred", "leave_one_out"] | None, typer.Option(metavar="NAME")
    ] = None,
    following: Annotated[bool, typer.Option("--follow")] = False,
    port: int = 0,
) -> None:
    """Write a run as one HTML page that needs no network.

    Args:
        out: Where to write the page; - is standard output.
        advantage: Show each turn's advantage, as group_normalised, mean_centred or leave_one_out.
        following: Serve the page on this machine, and refresh it as episodes are finished.
        port: Of --follow; 0 is a free one.
    """
    if following:
        if out is not None:
            raise ConfigError("--follow serves the page, and writes no file: leave out --out")
        read_run(run)  # an error, if there is none
        followed = FollowedRun(run, partial(_page, run, advantage))
        hello = f"shows {run}, and refreshes as episodes are finished"
        options.serve_until_stopped(followed, "127.0.0.1", port, lambda url: f"{url} {hello}")
        return
    page, stored = out or run / "report.html", read_run(run)
    with write_to(page) as target:
        write_page(target, stored.trees, **_options(run, stored, advantage))
    for note in plain_note():
        say(f"mars-env: {note}", err=True)
    say(f"wrote {page}", err=str(page) == STREAM)


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


def _page(run: Path, advantage: str | None, version: str) -> str:
    stored = read_run(run)
    return render_page(stored.trees, **_options(run, stored, advantage), version=version)


def _options(run: Path, stored: Run, advantage: str | None) -> dict[str, Any]:
    display = Display(_advantages(stored, advantage) if advantage else {})
    return {"title": run.resolve().name, "report": stored_report(run, stored), "display": display}


def _advantages(stored: Run, estimator: str) -> Mapping[tuple[str, str], float]:
    from mars_env.trainers.config import TrainConfig, estimator_of

    config = TrainConfig.model_validate({"advantage": estimator})
    return estimator_of(config)(groups_of(stored.trees))
