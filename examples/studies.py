"""What the programs of studies share: options, playing the rows that are owed, playing rows again.

A study's program says what one row is (`play(arm, seed)`), or all rows of a seed where these share a run
(`play(seed, done)`), and what its page shows; the rest is here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel
from rich.console import Console

from mars_env.agents import HFModel
from mars_env.errors import ConfigError
from mars_env.evaluation import Ledger, LedgerRow, settings_hash

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
Tuning = Annotated[bool, typer.Option("--tuning", help="Write to the log of tuning seeds.")]
FIRST_TUNING_SEED: Final = 100
"""Seeds from here on are for choosing a recipe's numbers: no page reports them."""

Play = Callable[[str, int], LedgerRow]
"""Plays the row of an arm and a seed; in processes it must be picklable (`functools.partial`)."""
PlaySeed = Callable[[int, Collection[str]], Iterable[LedgerRow]]
"""Plays the rows of a seed; it need not play those of the named arms, which the ledger has."""

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


def play_owed(
    play: Play, owed: Sequence[tuple[str, int]], ledger: Ledger, jobs: int = 0
) -> Iterator[LedgerRow]:
    """Play the owed rows, in so many processes or in this one, and append each to the ledger at once."""
    for row in _in_processes(play, owed, jobs) if jobs else (play(*each) for each in owed):
        ledger.append(row)
        yield row


def _in_processes(play: Play, owed: Sequence[tuple[str, int]], jobs: int) -> Iterator[LedgerRow]:
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(play, arm, seed) for arm, seed in owed]):
            yield done.result()


def play_seeds(
    play: PlaySeed, seeds: Iterable[int], arms: Collection[str], ledger: Ledger, settings: str
) -> Iterator[LedgerRow]:
    """Play the seeds of which the ledger lacks an arm, and append what it lacks when a seed is played."""
    for seed in seeds:
        done = {row.arm for row in ledger.rows(settings) if row.seed == seed}
        if done >= set(arms):
            continue
        for row in play(seed, done):
            if row.arm not in done:
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


def seed_repeats(
    rows: Iterable[LedgerRow], seed: int, again: Iterable[LedgerRow], measured: Collection[str] = ()
) -> bool:
    """As `repeats`, of a seed whose rows were played together."""
    by_arm = {row.arm: row for row in again}
    return repeats(rows, seed, list(by_arm), lambda arm, _: by_arm[arm], measured)


def settings_of(recipe: BaseModel) -> str:
    """The hash of a recipe: of all that decides a result except arm and seed."""
    return settings_hash(recipe.model_dump(mode="json"))


def refuse_mixed_seeds(seeds: Iterable[int], tuning: bool = False, numbers: Collection[object] = ()) -> None:
    """Keep tuning and reported seeds apart.

    Raises:
        typer.BadParameter: A seed is of the other kind, or a number is given (is not None) without --tuning.
    """
    if any((seed >= FIRST_TUNING_SEED) != tuning for seed in seeds):
        raise typer.BadParameter(f"seeds from {FIRST_TUNING_SEED} on are for --tuning, and only they")
    if not tuning and any(number is not None for number in numbers):
        raise typer.BadParameter("the numbers are for --tuning: the plan fixes them")


def with_recipe(row: LedgerRow, recipe: BaseModel) -> LedgerRow:
    """A row of a tuning seed, which says its numbers: no page does."""
    return row.model_copy(update={"detail": {**row.detail, "recipe": recipe.model_dump(mode="json")}})


def show(row: LedgerRow, titles: Mapping[str, str] | None = None) -> None:
    """Print one line about a row: all its figures, or those with a title."""
    titles = titles or {name: name for name in row.figures}
    figures = ", ".join(
        f"{title} {row.figures[key]:.3f}" for key, title in titles.items() if key in row.figures
    )
    console.print(f"{row.arm}, seed {row.seed}: {figures}; {row.seconds:.0f} s", highlight=False)


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
