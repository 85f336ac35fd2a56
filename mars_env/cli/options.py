"""What several commands share: options, progress bars, output."""

import asyncio
import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import progress

from mars_env.api import load_problems
from mars_env.cli.screen import Screen, say
from mars_env.cli.streams import STREAM, read_from
from mars_env.errors import ConfigError
from mars_env.evaluation.costs import checked_prices
from mars_env.models.secrets import api_key
from mars_env.net import Service
from mars_env.problems import ProblemSet

# Types of options, each of which several commands have.
Required = Annotated[str, typer.Option()]
Count = Annotated[int, typer.Option(min=1)]
Limit = Annotated[int | None, typer.Option(min=1)]
Settings = Annotated[list[str] | None, typer.Option("--set")]
StoredEnv = Annotated[str | None, typer.Option("--env")]
DryRun = Annotated[bool, typer.Option("--dry-run")]
Json = Annotated[bool, typer.Option("--json")]

HELP = {
    "agents": "The team: a SPEC, e.g. http://host:8000/v1#MODEL, or role=SPEC,role=SPEC (docs/agents.md).",
    "tools": "Tools for agents that name none: python, public_tests, my_module:my_tool, joined by +.",
    "problems": "Other problems: a set's name or a file; - is standard input.",
    "fields": "Other names of a file's fields, e.g. problem=NAME,answer=NAME; id= numbers the problems.",
    "split": "Split of the set, e.g. train or test; each set has a default.",
    "limit": "Number of problems, from the first.",
    "set_": "Setting of the game, name=value, e.g. nodes=8.",
    "seed": "Seed of the run.",
    "turn_timeout": "Seconds that an agent may take for a turn.",
    "reward": "role=my_module:my_reward; repeatable.",
    "team_reward": "my_module:my_team_reward, a function of a whole tree.",
    "grader": "my_module:my_grader.",
    "out": "Directory of the run; an existing run is resumed.",
    "run": "Directory of a stored run.",
    "env_id": "The environment whose game makes the prompts, if the run names none.",
    "kind": "Kind of the questions; by default that of the id's problems, mathematics for a game.",
    "host": "Address to serve on; any but this machine's needs a key.",
    "port": "Port to serve on; 0 for any.",
    "team": "my_module:my_team, a function of (model) or (model, sampling) that gives agents by role.",
}
"""What an option means where a command's docstring does not say it."""


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error; gives a function that takes how many are done, and of how many."""
    columns = (progress.BarColumn, progress.MofNCompleteColumn, progress.TimeElapsedColumn)
    name = progress.TextColumn("{task.description}", markup=False)
    with progress.Progress(name, *(column() for column in columns), console=Screen(stderr=True)) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def pairs(values: Sequence[str] | None, option: str) -> dict[str, str]:
    """The values of an option of the form ``name=value``."""
    result = {}
    for value in values or ():
        name, mark, rest = value.partition("=")
        if not mark or not name:
            raise ConfigError(f"{option} takes name=value, got {value!r}")
        result[name] = rest
    return result


def read_value(value: str) -> Any:
    """A value of JSON, else the string itself."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def settings(values: Sequence[str] | None) -> dict[str, Any]:
    """Settings of a game: ``name=value``."""
    return {name: read_value(value) for name, value in pairs(values, "--set").items()}


def loaded(
    problems: str | None, fields: str | None, split: str | None = None, own: str | None = None
) -> str | ProblemSet | None:
    """The problems of the options ``--problems``, ``--fields`` and ``--split``.

    ``-`` reads rows of JSON from standard input; None are those of the environment, whose set is `own`.
    """
    if split is not None and problems != STREAM and fields is None:
        return load_problems(problems or own or "", split=split)
    if split is not None:
        raise ConfigError("--split is for a set that has splits: a file's rows are all played")
    if problems is None and fields is not None:
        raise ConfigError("--fields names the fields of a file: add --problems FILE")
    named = pairs(fields.split(",") if fields is not None else None, "--fields")
    by_field = {name: field or None for name, field in named.items()}
    if problems == STREAM:
        with read_from(Path(STREAM)) as file:
            return load_problems(file, fields=by_field or None)
    return load_problems(Path(problems), fields=by_field) if problems is not None and by_field else problems


def finite_set(problems: ProblemSet) -> ProblemSet:
    """The set; a `ConfigError` if it is endless."""
    if problems.endless:
        command = f"mars-env problems {problems.name} --jsonl --limit N"
        raise ConfigError(f"the set {problems.name!r} is endless: give a file that `{command}` writes")
    return problems


def serve_until_stopped(server: Service, host: str, port: int, hello: Callable[[str], str]) -> None:
    """Serve until Ctrl-C or SIGTERM; `hello` is what to say of the server's address."""

    async def serve() -> None:
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        await server.start(host, port)
        try:
            say(f"{hello(server.url)}; Ctrl-C ends it")
            await stopped.wait()
        finally:
            await server.close()

    asyncio.run(serve())


def client_keys(variable: str | None) -> list[str]:
    """The keys that an environment variable holds, separated by commas; none without a variable."""
    return api_key(variable, "the clients' keys").replace(",", " ").split()


def prices(values: Sequence[str] | None) -> dict[str, tuple[float, float]] | None:
    """Prices of a million tokens, read and sampled: ``0.5,2`` for every policy, or ``policy=0.5,2``."""
    result: dict[str, tuple[float, float]] = {}
    for value in values or ():
        policy, _, amounts = value.rpartition("=")
        if policy in result:
            raise ConfigError(f"--price gives {policy or 'the policies that are not named'} two prices")
        try:
            result |= checked_prices({policy: amounts.split(",")})
        except ConfigError as error:
            raise ConfigError(f"--price takes READ,SAMPLED or POLICY=READ,SAMPLED, got {value!r}") from error
    return result or None
