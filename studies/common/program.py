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

from mars_env.envs import Game
from mars_env.errors import ConfigError
from mars_env.evaluation import Provenance, tables
from mars_env.files import write_whole
from mars_env.models import HFModel
from mars_env.rollout import Job, collect
from mars_env.trainers import RunSettings, TrainConfig
from mars_env.types import Agent, Problem, Tree
from studies.common.ledger import Ledger, LedgerRow, settings_hash

DOCS: Final = Path(__file__).parents[2] / "docs"
RESULTS: Final = DOCS / "results"
MACHINE: Final = "one core of a 2-core machine"
"""On which the older studies were run; it is in their pages."""

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
Steps = Annotated[int | None, typer.Option(help="Steps with rewards; only with --tuning.")]
Rate = Annotated[
    float | None, typer.Option("--learning-rate", help="Of the steps with rewards; only with --tuning.")
]
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


def new_row(
    arm: str,
    seed: int,
    origin: Provenance,
    settings: str,
    seconds: float,
    figures: Mapping[str, float | None],
    detail: Mapping[str, Any] | None = None,
) -> LedgerRow:
    """The row of an arm and a seed; a figure that is None is left out."""
    known = {name: value for name, value in figures.items() if value is not None}
    return LedgerRow(
        arm=arm, seed=seed, commit=origin.commit, versions=origin.versions, settings=settings,
        seconds=round(seconds, 1), figures=known, detail=dict(detail or {}),
    )  # fmt: skip


def play_owed(
    play: Play,
    owed: Iterable[tuple[str, int]],
    ledger: Ledger,
    titles: Mapping[str, str] | None = None,
    jobs: int = 0,
) -> None:
    """Play the owed rows, in so many processes or in this one; each is in the ledger at once, and shown.

    They are played seed by seed, so that an interrupted run leaves whole seeds. After a row that fails no
    other is begun.
    """
    by_seed = sorted(owed, key=lambda row: row[1])
    for row in _in_processes(play, by_seed, jobs) if jobs else (play(*each) for each in by_seed):
        ledger.append(row)
        show(row, titles)


def _in_processes(play: Play, owed: Sequence[tuple[str, int]], jobs: int) -> Iterator[LedgerRow]:
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    try:
        for done in as_completed([pool.submit(play, arm, seed) for arm, seed in owed]):
            yield done.result()
    finally:  # an error here or where a row is kept: all other rows would be played, and lost
        pool.shutdown(cancel_futures=True)


def play_seeds(
    play: PlaySeed,
    seeds: Iterable[int],
    arms: Collection[str],
    ledger: Ledger,
    settings: str,
    titles: Mapping[str, str] | None = None,
) -> None:
    """Play the seeds of which the ledger lacks an arm, append what it lacked, and show all rows."""
    for seed in seeds:
        done = {row.arm for row in ledger.rows(settings) if row.seed == seed}
        if done >= set(arms):
            continue
        for row in play(seed, done):
            if row.arm not in done:
                ledger.append(row)
            show(row, titles)


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


def settings_of(recipe: BaseModel, others: Mapping[str, Any] | None = None) -> str:
    """The hash of all that decides a result except arm and seed: a recipe, and what there is beside it."""
    numbers = _as_recorded(recipe.model_dump(mode="json"))
    return settings_hash({"recipe": numbers, **others} if others else numbers)


def _as_recorded(value: Any) -> Any:
    """Plain data, its losses as the first rows had them: every clip named, uniform groups dropped."""
    if not isinstance(value, dict):
        return value
    if value.get("uniform_groups") != "drop":
        return {name: _as_recorded(part) for name, part in value.items()}
    loss = TrainConfig.model_validate(value)
    named = {"clip_low": loss.clip[0], "clip_high": loss.clip[1], "aggregation": loss.mean}
    return {name: part for name, part in (value | named).items() if name != "uniform_groups"}


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


def present_rows(ledger: Ledger, settings: str) -> list[LedgerRow]:
    """The ledger's rows of the present settings.

    Raises:
        ConfigError: There are none.
    """
    if rows := ledger.rows(settings):
        return rows
    raise ConfigError(f"{ledger.path} holds no row of the present settings; run a seed")


def still_owed(planned: int, rows: Sequence[LedgerRow]) -> str:
    """What a page says first while rows of the plan are missing."""
    owed = planned - len(rows)
    return f"**{owed} rows of the plan have not been run yet.**\n\n" if owed else ""


def write(page: Path, part: str, text: str) -> None:
    """Replace a part of a page, what stands between its two marks, and say so.

    Raises:
        ConfigError: The page lacks the marks, or holds them more than once or in the wrong order.
    """
    begin, end = f"<!-- begin {part} -->\n", f"<!-- end {part} -->\n"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed or begin in rest or end in before + after:
        raise ConfigError(f"{page} must hold the lines {begin.strip()!r} and {end.strip()!r}, once each")
    write_whole(page, f"{before}{begin}{text.rstrip()}\n{end}{after}")
    console.print(f"wrote {page}", highlight=False)


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table for a page; its cells may hold Markdown."""
    return tables.as_markdown(tables.Table(tuple(heads), tuple(map(tuple, lines))), markup=True) + "\n"


async def played_often(
    game: Game, agents: Mapping[str, Agent], problems: Iterable[Problem], samples: int, seed: int
) -> list[Tree]:
    """Every problem so many times, all at once."""
    jobs = [Job(problem, sample) for sample in range(samples) for problem in problems]
    return await collect(game, agents, jobs, seed=seed, concurrency=len(jobs))


def varied_run(run: RunSettings, steps: int | None, rate: float | None) -> RunSettings:
    """The settings with other numbers, for tuning."""
    if steps is not None:
        run = run.model_copy(update={"steps": steps})
    if rate is not None:
        run = run.model_copy(update={"train": run.train.model_copy(update={"learning_rate": rate})})
    return run


def copied(model: HFModel, name: str | None = None) -> HFModel:
    """The same model with weights of its own."""
    return HFModel((copy.deepcopy(model.module), model.tokenizer), device="cpu", name=name or model.name)


def rendered(template: str, **values: Any) -> str:
    """A Markdown page from a template beside the studies; nothing is escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parents[1]),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(**values)
