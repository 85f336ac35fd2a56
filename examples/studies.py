"""What the programs of studies share: options, playing the rows that are owed, playing rows again.

A study's program says what one row is (`play(arm, seed)`) and what its page shows; the rest is here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.console import Console

from mars_env.agents import HFModel
from mars_env.errors import ConfigError
from mars_env.evaluation import Ledger, LedgerRow

Seeds = Annotated[str, typer.Option(help='E.g. "0-4"; rows in the ledger are not run again.')]
Arms = Annotated[list[str] | None, typer.Option("--arm", help="Only these arms; repeatable.")]
Jobs = Annotated[int, typer.Option(help="Processes at once, one core each.")]
Table = Annotated[bool, typer.Option("--table", help="Only write the tables.")]
Check = Annotated[int | None, typer.Option("--check", help="Play a seed's rows again, and compare.")]
Quick = Annotated[bool, typer.Option("--quick", help="A very small seed; nothing is kept.")]
Dirty = Annotated[
    bool, typer.Option("--allow-dirty", help="Record rows of uncommitted code; they are marked.")
]
Cache = Annotated[
    Path | None, typer.Option(help="Where to keep warm-started weights; by default only for this run.")
]
Play = Callable[[str, int], LedgerRow]
"""Plays the row of an arm and a seed; with several jobs it must be picklable (`functools.partial`)."""

console: Final = Console(width=160)


def chosen(wanted: Collection[str] | None, arms: Iterable[str]) -> list[str]:
    """The wanted arms in their usual order; all if none is named.

    Raises:
        typer.BadParameter: One is unknown.
    """
    every = list(arms)
    if unknown := sorted(set(wanted or ()) - set(every)):
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}; there are {'; '.join(every)}")
    return [arm for arm in every if not wanted or arm in wanted]


def seed_by_seed(rows: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """In this order an interrupted run leaves whole seeds."""
    return sorted(rows, key=lambda row: row[1])


def play_owed(play: Play, owed: Sequence[tuple[str, int]], ledger: Ledger, jobs: int) -> Iterator[LedgerRow]:
    """Play the owed rows in processes of their own, and append each to the ledger when it is there."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(play, arm, seed) for arm, seed in owed]):
            row = done.result()
            ledger.append(row)
            yield row


def repeats(
    rows: Iterable[LedgerRow], seed: int, arms: Sequence[str], play: Play, measured: Collection[str] = ()
) -> bool:
    """Play a seed's rows again, and say which of the stored figures differ.

    Args:
        rows: The ledger's, of one setting.
        seed: Which seed.
        arms: Which arms.
        play: Plays a row; nothing is recorded.
        measured: Figures that need not repeat, such as seconds.

    Raises:
        ConfigError: One of the rows is not in the ledger.
    """
    stored = {row.arm: row.figures for row in rows if row.seed == seed}
    if missing := [arm for arm in arms if arm not in stored]:
        raise ConfigError(f"the ledger contains no row for {', '.join(map(repr, missing))}, seed {seed}")
    same = True
    for arm in arms:
        then, now = stored[arm], play(arm, seed).figures
        differs = sorted(name for name in then.keys() - set(measured) if then[name] != now.get(name))
        same &= not differs
        said = f"differs in {', '.join(differs)}" if differs else "the same"
        console.print(f"{arm}, seed {seed}: {said}", highlight=False)
    return same


def copied(model: HFModel, name: str | None = None) -> HFModel:
    """The same model with weights of its own."""
    return HFModel((copy.deepcopy(model.module), model.tokenizer), device="cpu", name=name or model.name)


def rendered(template: str, **values: Any) -> str:
    """A Markdown page from `examples/templates`; nothing is escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(**values)
