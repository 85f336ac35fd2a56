"""`mars-env train`: what a run file says, with flags that are paths in it."""

import textwrap
from typing import Annotated

import typer
from rich.live import Live

from mars_env.cli import options
from mars_env.cli.live import TrainingView
from mars_env.cli.screen import Screen, say
from mars_env.errors import ConfigError
from mars_env.text import counted
from mars_env.trainers.recipes import RunSettings
from mars_env.trainers.run_file import load_run, parse_flags
from mars_env.trainers.tables import setting_rows

FITS_NOT = 3  # the exit status of a dry run whose models do not fit

USAGE = """Usage: mars-env train FILE.toml|ENVIRONMENT [--model PATH] [--dry-run]
                      [--PATH.IN.FILE VALUE ...]

Train a team, on this machine or through OpenRLHF, from a run file
(docs/training.md). An environment's id or a game in place of the file is a
file that names only that. Settings start from the recipe of the game. Tables
and lists are JSON or TOML. The same command continues from the newest
checkpoint.

  mars-env train aime-solve-verify-correct --model CHECKPOINT --out runs/one
  mars-env train run.toml --backend openrlhf --dry-run

  --model PATH      short for --team.model; several: one for each agent
  --credit RULE     short for --train.credit: marsrl, c3 ... (docs/credit.md)
  --dry-run         print the plan and an estimate of the memory, start nothing;
                    exit status: 0 it fits, 2 a setting is rejected, 3 no room
  --gpu-memory GIB  memory of a GPU, for --dry-run (80)

Settings:
"""


def train(
    arguments: Annotated[list[str] | None, typer.Argument()] = None,
    dry_run: options.DryRun = False,
    gpu_memory: Annotated[float, typer.Option(min=0)] = 80,
) -> None:
    """Train a team from a run file, on this machine or through OpenRLHF.

    Args:
        arguments: A run file or an environment's id, then settings: --PATH VALUE (--help lists them).
        dry_run: Print the plan and an estimate of the memory, and start nothing.
        gpu_memory: GiB of the GPU, for --dry-run.
    """
    source, *flags = arguments or ["--help"]
    if {"-h", "--help"} & {source, *flags}:
        say(USAGE + "\n".join(map(entry, setting_rows(RunSettings()))))
        return
    if source.startswith("-"):
        raise ConfigError(f"name the run file or the environment first, before {source}")
    settings = load_run(source, parse_flags(flags))
    if dry_run:
        from mars_env.trainers.plan import plan

        text, fits = plan(settings, gpu_memory)
        say(text)
        if not fits:
            raise typer.Exit(FITS_NOT)
        return
    from mars_env.trainers.front import train_run

    screen = Screen()
    if settings.backend == "openrlhf" or not (screen.is_terminal and settings.logging.console):
        history = train_run(settings)
    else:
        view = TrainingView(settings.steps)
        with Live(get_renderable=lambda: view, console=screen, refresh_per_second=2):
            history = train_run(settings, [view])
    if not history:
        say(f"nothing to do: all {counted(settings.steps, 'step')} of {settings.out} are done")


def entry(row: tuple[str, str, str, str]) -> str:
    """A setting in the help: its path, type and default, and what it means."""
    path, kind, default, meaning = row
    head = f"{path}  ({kind})" + (f"  [{default}]" if default else "")
    return "\n".join(
        textwrap.fill(text, 80, initial_indent=first, subsequent_indent=" " * 6, break_on_hyphens=False)
        for text, first in ((head, "  "), (meaning, " " * 6))
    )
