"""`--config FILE` of every command: options from a TOML file. What the command line says goes before it."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from mars_env.cli.streams import text_of
from mars_env.errors import ConfigError, explained
from mars_env.text import shown, suggestion

REST = "mars_env.config"
"""Key of a context's ``meta``: what a file says beside the options, for commands that take more."""


def config_option(*, takes_more: bool) -> Any:
    """The option ``--config``; the file of a command that takes more than options is in its context."""

    def read(ctx: typer.Context, value: str | None) -> None:
        if value is not None:
            name = ctx.info_name or ""
            ctx.default_map, ctx.meta[REST] = _defaults(Path(value), ctx.command.params, takes_more, name)

    more = ", and its settings," if takes_more else ""
    meaning = f"Options of this command{more} from a TOML file; - reads it from standard input."
    how: dict[str, Any] = {"callback": read, "is_eager": True, "expose_value": False, "metavar": "FILE"}
    option = typer.Option("--config", help=meaning, **how)

    def command(config: Annotated[str | None, option] = None) -> None:
        pass

    app = typer.Typer(add_completion=False)
    app.command()(command)
    return typer.main.get_command(app).params[0]


def _defaults(
    path: Path, parameters: list[Any], takes_more: bool, command: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options that a file names, as the command line would give them; and the rest."""
    known = {name: each for each in parameters for name in _names(each)}
    given: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in _read(path).items():
        parameter = known.get(key.replace("-", "_"))
        if parameter is not None:
            given[parameter.name] = _value(value, multiple=getattr(parameter, "multiple", False))
        elif takes_more:
            rest[key] = value
        else:
            hint = suggestion(key, known)
            raise ConfigError(f"{path}: the command {command} has no option {shown(key)}{hint}")
    return given, rest


def _names(parameter: Any) -> list[str]:
    if parameter.name in ("config", "help"):
        return []
    return [parameter.name, *(opt.lstrip("-").replace("-", "_") for opt in parameter.opts)]


def _value(value: Any, *, multiple: bool) -> Any:
    """A value as the command line would give it: tables are lists of ``name=value``."""
    if isinstance(value, Mapping):
        value = [f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in value.items()]
        return value if multiple else ",".join(value)
    if multiple and not isinstance(value, list):
        return [value]
    return value


def _read(path: Path) -> dict[str, Any]:
    with explained(ConfigError, f"{path} is not TOML", tomllib.TOMLDecodeError):
        return tomllib.loads(text_of(path))
