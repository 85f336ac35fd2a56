"""What several commands share: options, progress bars, output."""

from __future__ import annotations

import asyncio
import json
import math
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from mars_env.api import load_problems
from mars_env.cli.screen import Screen, say, say_json
from mars_env.cli.streams import STREAM, read_from
from mars_env.errors import ConfigError
from mars_env.lazy import resolve
from mars_env.problems import ProblemSet
from mars_env.rollout.records import tagged
from mars_env.text import suggestion

SPLIT_HELP = "Split of the set, e.g. train or test, where its own choice is not meant."

FIELDS = ("id", "problem", "answer")
FIELDS_HELP = (
    "The file's fields, where they differ: id=NAME,problem=NAME,answer=NAME; id= numbers the problems."
)

Rewards = Annotated[list[str] | None, typer.Option("--reward", help="role=my_module:my_reward; repeatable.")]
TeamReward = Annotated[
    str | None, typer.Option("--team-reward", help="my_module:my_team_reward, a function of a whole tree.")
]
Grader = Annotated[str | None, typer.Option("--grader", help="my_module:my_grader.")]


def progress_bar() -> Progress:
    """A progress bar on standard error, so that standard output stays clean."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Screen(stderr=True),
    )


def print_json_line(row: Mapping[str, Any]) -> None:
    """One row of JSON on standard output."""
    say_json(json.dumps(tagged(row), allow_nan=False))


def pairs(values: Sequence[str], what: str) -> dict[str, str]:
    """Options of the form ``name=value``.

    Raises:
        ConfigError: One has no equals sign.

    Example:
        >>> pairs(["rounds=3"], "--set")
        {'rounds': '3'}
    """
    result = {}
    for value in values:
        name, mark, rest = value.partition("=")
        if not mark or not name:
            raise ConfigError(f"{what} takes name=value, got {value!r}")
        result[name] = rest
    return result


def loaded(
    problems: str | None, fields: str | None, split: str | None = None, own: str | None = None
) -> str | ProblemSet | None:
    """The problems of an option; ``-`` reads them from standard input, in rows of JSON.

    A file's are loaded by the names of its fields, where these are given; an id without a name numbers them.

    Args:
        problems: A set's name or a file; None for those of the environment.
        fields: Names of the file's fields.
        split: Of the set, where it is not the one that the set gives by itself.
        own: Name of the environment's own set.

    Raises:
        ConfigError: Fields are given without a file, or are none, or there is no such split.
    """
    if split is not None and problems != STREAM and fields is None:
        return load_problems(problems or own or "", split=split)
    if split is not None:
        raise ConfigError("--split is for a set that has splits: a file's rows are all played")
    if problems is None and fields is not None:
        raise ConfigError("--fields names the fields of a file: add --problems FILE")
    given = pairs(fields.split(","), "--fields") if fields is not None else {}
    told = {name: field or None for name, field in given.items()}
    if strange := next((name for name in told if name not in FIELDS), None):
        raise ConfigError(
            f"--fields has no {strange!r}; it takes {', '.join(FIELDS)}{suggestion(strange, FIELDS)}"
        )
    if problems == STREAM:
        with read_from(Path(STREAM)) as file:
            return load_problems(file, fields=told or None)
    return load_problems(Path(problems), fields=told) if problems is not None and told else problems


class Server(Protocol):
    """What serves requests until it is closed."""

    async def start(self, host: str, port: int) -> None:
        """Serve."""

    async def close(self) -> None:
        """End."""


async def serve_until_stopped(server: Server, host: str, port: int, hello: Callable[[], str]) -> None:
    """Serve until Ctrl-C or a request to end; what `hello` gives is said once the server is there."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await server.start(host, port)
    try:
        say(f"{hello()}; Ctrl-C ends it")
        await stopped.wait()
    finally:
        await server.close()


def settings(values: Sequence[str]) -> dict[str, Any]:
    """Settings of rules: ``name=value``, values read as JSON where they are, else as texts.

    Example:
        >>> settings(["rounds=3", "schedule=training"])
        {'rounds': 3, 'schedule': 'training'}
    """
    result: dict[str, Any] = {}
    for name, value in pairs(values, "--set").items():
        try:
            result[name] = json.loads(value)
        except ValueError:
            result[name] = value
    return result


def prices(values: Sequence[str]) -> dict[str, tuple[float, float]] | None:
    """Prices of a million tokens, read and sampled: ``0.5,2`` for every policy, or ``policy=0.5,2``.

    Raises:
        ConfigError: One is not two amounts of money.

    Example:
        >>> prices(["0.5,2", "large=3,15"])
        {'': (0.5, 2.0), 'large': (3.0, 15.0)}
    """
    result: dict[str, tuple[float, float]] = {}
    for value in values:
        policy, _, amounts = value.rpartition("=")
        try:
            read, sampled = map(float, amounts.split(","))
        except ValueError:
            read = sampled = -1.0
        if not (0 <= read < math.inf and 0 <= sampled < math.inf):
            raise ConfigError(
                f"--price takes READ,SAMPLED or POLICY=READ,SAMPLED, for a million tokens, got {value!r}"
            )
        result[policy] = (read, sampled)
    return result or None


def own_metrics(values: Sequence[str]) -> None:
    """Register metrics of the form ``my_module:my_metric`` under the function's own name.

    Raises:
        ConfigError: There is no such function.
    """
    from mars_env.evaluation import register_metric

    for value in values:
        register_metric(value.rpartition(":")[2], resolve(value))
