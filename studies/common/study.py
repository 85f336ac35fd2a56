"""A study: arms that are run over seeds, a ledger of their rows, a page made of these, and a command line.

python -m studies.marsrl --seeds 0-4     # runs what the ledger lacks; by default all of the plan
python -m studies.marsrl --check 0       # runs a seed's rows again, and compares them exactly
python -m studies.marsrl --check 0 --updates 2 --arm all   # only the rewards of its first updates
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import wraps
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Final

import torch
import typer
from pydantic import BaseModel
from rich.console import Console

from mars_env.errors import ConfigError
from mars_env.evaluation.provenance import Provenance, provenance
from mars_env.trainers import TrainConfig
from studies.common.claims import Claim, Judged, judge_all
from studies.common.commits import commit_of, committed
from studies.common.ledger import Ledger, LedgerRow, seeds_of, settings_hash
from studies.common.pages import STUDIES, rendered, write

FIRST_TUNING_SEED: Final = 100
"""Seeds from here on are for choosing a recipe's numbers: no page reports them."""

console: Final = Console(width=160)


@dataclass(frozen=True, slots=True)
class Run:
    """What the rows of one seed are made with; `cache` keeps warm starts and what continues after a kill."""

    seed: int
    recipe: Any
    cache: Path
    resource: Any = None


@dataclass(frozen=True, slots=True)
class Result:
    """What a row says: figures (not those that are None), plain data, seconds if the study measures them."""

    figures: Mapping[str, float | None]
    detail: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None


Key = tuple[str, int]
"""The arm and the seed of a row."""
Play = Callable[[Sequence[str], Run], Awaitable[Mapping[str, Result]]]
"""Runs arms of a seed; a function of a module, since other processes import it."""


def arm_by_arm(play: Callable[[str, Run], Awaitable[Result]]) -> Play:
    """The same for several arms, one after the other."""

    @wraps(play)
    async def every(arms: Sequence[str], run: Run) -> dict[str, Result]:
        return {arm: await play(arm, run) for arm in arms}

    return every


def _nothing(_: Any) -> dict[str, Any]:
    return {}


def _same(rows: Sequence[LedgerRow]) -> list[LedgerRow]:
    return list(rows)


@dataclass(frozen=True)
class Study:
    """One study: its folder holds its code, page (`README.md`), plan, ledger and perhaps `tuning.jsonl`.

    Attributes:
        version: Change it with the recipe, or with anything else that decides a result: rows of another
            version do not count any more.
        task: What is run, for the overview.
        starts: How many warm starts were trained from.
        play: Runs rows; decorate it with `arm_by_arm` if rows share nothing.
        shown: What the template of the page, `results.md.jinja`, gets beside the study and its rows; without
            one the page has the tables of `columns` and `claims`, `more`, and where the rows come from.
        seeds: The plan's, such as "0-4"; `seeds_of_arm` where an arm has others.
        together: Whether the rows of a seed are made in one call of `play`.
        columns: Metrics that are shown of a row, and their titles; by default all.
        measured: Metrics that need not repeat, such as seconds.
        unrepeatable: Arms whose rows depend on timing, or on the code of their commit.
        plan_of: The study whose plan holds; by default this one. None if there is no plan.
        widen: Adds to the rows what another study's ledger holds.
        resources: What is open while rows are made; they are then made in this process.
        updates: Where the recipe has the number of updates ("marsrl.steps"), if rows keep their rewards.
        state: Where runs continue after a kill; None where they do not.
        note: What the overview adds to the command of `--check`.
    """

    name: str
    version: str
    task: str
    starts: str
    arms: Sequence[str]
    recipe: BaseModel
    quick: BaseModel
    play: Play
    claims: Sequence[Claim]
    shown: Callable[[Sequence[LedgerRow]], Mapping[str, Any]] = _nothing
    seeds: str = "0-4"
    seeds_of_arm: Mapping[str, Sequence[int]] = field(default_factory=dict)
    together: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    measured: Collection[str] = ()
    unrepeatable: Collection[str] = ()
    plan_of: str | None = ""
    plots: Callable[[Sequence[LedgerRow]], Mapping[str, bytes]] = _nothing
    widen: Callable[[Sequence[LedgerRow]], list[LedgerRow]] = _same
    resources: Callable[[], AbstractContextManager[Any]] | None = None
    updates: str = ""
    state: Path | None = None
    note: str = ""
    root: Path = STUDIES

    @property
    def ledger(self) -> Ledger:
        """The reported rows."""
        return Ledger(self.root / self.name / "ledger.jsonl")

    @property
    def tuning(self) -> Ledger:
        """Rows of tuning seeds."""
        return Ledger(self.root / self.name / "tuning.jsonl")

    @property
    def plan(self) -> Path | None:
        """What was committed before the first row."""
        return None if self.plan_of is None else STUDIES / (self.plan_of or self.name) / "plan.md"

    def settings(self, recipe: BaseModel | None = None) -> str:
        """What rows are made with: the version of the study, or a hash of another recipe than its own."""
        if recipe is None or recipe == self.recipe:
            return self.version
        return settings_hash({"version": self.version, "recipe": recipe.model_dump(mode="json")})

    def rows(self) -> list[LedgerRow]:
        """The ledger's rows of the present version."""
        return self.ledger.rows(self.settings())

    def plan_rows(self) -> list[Key]:
        """Arm and seed of every row of the plan."""
        return self.wanted(None, None, tuning=False)

    def page(self, rows: Sequence[LedgerRow]) -> str:
        """What the ledger decides of the study's page."""
        planned = len(self.plan_rows())
        done = f"**Incomplete: {len(rows)} of {planned} rows of the plan have been made.**\n\n"
        return (done if len(rows) < planned else "") + rendered(
            self.name, rows, self.widen(rows), study=self, **self.shown(rows)
        )

    def judged(self) -> list[Judged]:
        """The claims, judged on the ledger; none while rows of the plan are missing."""
        rows = self.rows()
        return judge_all(self.widen(rows), self.claims) if len(rows) == len(self.plan_rows()) else []

    def write_page(self) -> None:
        """Write what the ledger decides into the study's page, and its plots."""
        rows = self.rows()
        if not rows:
            raise ConfigError(f"{self.ledger.path} has no rows: run a seed")
        for name, content in self.plots(rows).items():
            (self.root / self.name / name).write_bytes(content)
        write(self.root / self.name / "README.md", "ledger", self.page(rows))

    def made(self, arms: Sequence[str], run: Run, origin: Provenance, plan: str | None) -> list[LedgerRow]:
        """Make the rows of arms of a seed."""
        began = time.process_time()
        results = asyncio.run(self.play(arms, run))  # type: ignore[arg-type]
        seconds = (time.process_time() - began) / len(results)
        tuned = {"recipe": run.recipe.model_dump(mode="json")} if run.seed >= FIRST_TUNING_SEED else {}
        return [
            LedgerRow(
                arm=arm,
                seed=run.seed,
                commit=origin.commit,
                versions=origin.versions,
                settings=self.settings(run.recipe),
                seconds=round(seconds if result.seconds is None else result.seconds, 1),
                figures={name: value for name, value in result.figures.items() if value is not None},
                detail={**({"plan": plan} if plan else {}), **result.detail, **tuned},
            )
            for arm, result in results.items()
        ]

    def each(
        self, wanted: Sequence[Key], run: Run, origin: Provenance, plan: str | None = None, jobs: int = 0
    ) -> Iterator[LedgerRow]:
        """Make wanted rows, and those that are made with them, in so many processes or in this one."""
        calls = []
        for seed in sorted({seed for _, seed in wanted}):
            arms = [(arm,) for arm, other in wanted if other == seed]
            groups = [tuple(arm for (arm,) in arms)] if self.together else arms
            calls += [(group, replace(run, seed=seed), origin, plan) for group in groups]
        for rows in _in_processes(self.made, calls, jobs) if jobs else (self.made(*call) for call in calls):
            yield from rows

    def add(self, owed: Sequence[Key], run: Run, origin: Provenance, jobs: int = 0) -> None:
        """Make owed rows; each is shown and kept at once."""
        plan = commit_of(self.plan) if self.plan else None
        for row in self.each(owed, run, origin, plan, jobs):
            if (row.arm, row.seed) in owed:
                (self.tuning if row.seed >= FIRST_TUNING_SEED else self.ledger).append(row)
            self.show(row)

    def show(self, row: LedgerRow) -> None:
        """Print one line about a row."""
        titles = self.columns or {name: name for name in row.figures}
        figures = ", ".join(
            f"{title} {row.figures[key]:.3f}" for key, title in titles.items() if key in row.figures
        )
        console.print(f"{row.arm}, seed {row.seed}: {figures}; {row.seconds:.0f} s", highlight=False)

    def repeats(self, stored: Iterable[LedgerRow], again: Iterable[LedgerRow]) -> bool:
        """Compare rows that were made again with the stored ones, and print which figures differ."""
        before, same = {(row.arm, row.seed): row.figures for row in stored}, True
        for row in again:
            then, now = before[row.arm, row.seed], row.figures
            differs = sorted(n for n in then.keys() - set(self.measured) if then[n] != now.get(n))
            same &= not differs
            said = f"differs in {', '.join(differs)}" if differs else "the same"
            console.print(f"{row.arm}, seed {row.seed}: {said}", highlight=False)
        return same

    def check(self, seed: int, arms: Sequence[str] | None, run: Run, origin: Provenance) -> bool:
        """Make a seed's rows again, and compare."""
        ledger = self.tuning if seed >= FIRST_TUNING_SEED else self.ledger
        stored = [row for row in ledger.rows(self.settings(run.recipe)) if row.seed == seed]
        there = {row.arm for row in stored}
        wanted = arms or [arm for arm in self.arms if arm in there and arm not in self.unrepeatable]
        if not wanted or not there.issuperset(wanted):
            raise ConfigError(f"{ledger.path} lacks a row of seed {seed}: {', '.join(wanted) or 'all arms'}")
        again = self.each([(arm, seed) for arm in wanted], run, origin)
        return self.repeats(stored, [row for row in again if row.arm in wanted])

    def check_updates(self, updates: int, seed: int, arms: Sequence[str] | None, run: Run) -> bool:
        """Make only the first updates of a seed's rows again, and compare their rewards."""
        if not self.updates:
            raise ConfigError(f"rows of {self.name} do not hold rewards by update: leave --updates out")
        stored = {row.arm: row for row in self.rows() if row.seed == seed and (not arms or row.arm in arms)}
        short = replace(run, seed=seed, recipe=_changed(run.recipe, self.updates, updates))
        same = bool(stored)
        for arm, row in stored.items():
            then = _first(row.detail, updates)
            if then is None or arm in self.unrepeatable:
                continue
            now = _first(asyncio.run(self.play([arm], short))[arm].detail, updates)  # type: ignore[arg-type]
            same &= then == now
            said = "the same" if then == now else f"{now} instead of {then}"
            console.print(f"{arm}, seed {seed}, first {updates} updates: {said}", highlight=False)
        return same

    def chosen(self, wanted: Collection[str] | None) -> list[str] | None:
        """The wanted arms in their usual order; None if none is named."""
        if unknown := sorted(set(wanted or ()) - set(self.arms)):
            raise typer.BadParameter(f"unknown: {', '.join(unknown)}; there are {'; '.join(self.arms)}")
        return [arm for arm in self.arms if arm in wanted] if wanted else None

    def wanted(self, seeds: str | None, arms: Sequence[str] | None, tuning: bool) -> list[Key]:
        """Arm and seed of what a command asks for."""
        numbers = [] if seeds is None else seeds_of(seeds)
        planned, usual = {} if tuning else self.seeds_of_arm, seeds_of(self.seeds)
        found = [
            (arm, seed)
            for arm in arms or self.arms
            for seed in numbers or planned.get(arm, usual)
            if seed in planned.get(arm, [seed])
        ]
        asked = [seed for _, seed in found] + numbers
        if any((seed >= FIRST_TUNING_SEED) != tuning for seed in asked):
            raise typer.BadParameter(f"seeds from {FIRST_TUNING_SEED} on are for tuning, with --recipe")
        return found

    def place(self, cache: Path | None, folder: str, kept: bool, recipe: BaseModel) -> Path:
        """Where warm starts and state are kept: never old state for a row that is to be made again."""
        old = (cache or self.state) if kept or not self.state else None
        return (old or Path(folder)).absolute() / self.settings(recipe)

    def command(
        self,
        seeds: Annotated[str | None, typer.Option(help='E.g. "0-4"; by default the plan\'s.')] = None,
        arm: Annotated[list[str] | None, typer.Option(help="Only these arms; repeatable.")] = None,
        jobs: Annotated[int, typer.Option(help="Processes at once; 0 is this one.")] = 0,
        table: Annotated[bool, typer.Option("--table", help="Only write the page.")] = False,
        check: Annotated[int | None, typer.Option(help="Make a seed's rows again, and compare.")] = None,
        updates: Annotated[int | None, typer.Option(help="With --check: only so many updates.")] = None,
        quick: Annotated[bool, typer.Option("--quick", help="Very small; nothing is kept.")] = False,
        allow_dirty: Annotated[bool, typer.Option("--allow-dirty", help="Run uncommitted code.")] = False,
        cache: Annotated[Path | None, typer.Option(help="Where to keep warm starts and state.")] = None,
        recipe: Annotated[Path | None, typer.Option(help="JSON for tuning, seeds from 100 on.")] = None,
    ) -> None:
        """Run what the ledger lacks; --table writes the page."""
        torch.set_num_threads(1)  # more threads only slow models this small down
        arms, tuning = self.chosen(arm), recipe is not None
        if table:
            self.write_page()
            return
        if jobs and self.resources:
            raise typer.BadParameter("rows of this study are made in one process: leave --jobs out")
        numbers = self.quick if quick else self.recipe
        if recipe is not None:
            numbers = type(self.recipe).model_validate_json(recipe.read_text(encoding="utf-8"))
        rerun = quick or check is not None
        owed = [] if rerun else self.wanted(seeds, arms, tuning)
        origin = provenance() if allow_dirty or rerun else committed(provenance())
        with tempfile.TemporaryDirectory() as folder, (self.resources or nullcontext)() as resource:
            place = self.place(cache, folder, not rerun, numbers)
            run = Run(0, numbers, place, resource)
            if check is not None and updates is not None:
                raise typer.Exit(0 if self.check_updates(updates, check, arms, run) else 1)
            if check is not None:
                raise typer.Exit(0 if self.check(check, arms, run, origin) else 1)
            if quick:
                seed = self.plan_rows()[0][1]
                for row in self.each([(name, seed) for name in arms or self.arms], run, origin):
                    self.show(row)
                return
            ledger = self.tuning if tuning else self.ledger
            there = {(row.arm, row.seed) for row in ledger.rows(self.settings(numbers))}
            self.add([each for each in owed if each not in there], run, origin, jobs)

    def main(self) -> None:
        """The study's command line."""
        app = typer.Typer(add_completion=False)
        app.command(help=f"{self.name}: run what the ledger lacks; --table writes the page.")(self.command)
        app()


def _changed(recipe: BaseModel, path: str, value: int) -> BaseModel:
    """The recipe with another value where the path leads."""
    name, _, rest = path.partition(".")
    return recipe.model_copy(update={name: _changed(getattr(recipe, name), rest, value) if rest else value})


def _first(detail: Mapping[str, Any], updates: int) -> Any:
    """Rewards of the first updates, of all roles together or by role; None where there are none."""
    rewards = detail.get("rewards")
    if isinstance(rewards, Mapping):
        found = {role: values[:updates] for role, values in rewards.items() if values}
        return found or None
    return rewards[:updates] if rewards else None


def _in_processes(make: Any, calls: Sequence[Any], jobs: int) -> Iterator[list[LedgerRow]]:
    spawn, threads = get_context("spawn"), torch.set_num_threads
    pool = ProcessPoolExecutor(jobs, mp_context=spawn, initializer=threads, initargs=(1,))
    try:
        for done in as_completed([pool.submit(make, *call) for call in calls]):
            yield done.result()
    finally:  # an error here or where a row is kept: all other rows would be made, and lost
        pool.shutdown(cancel_futures=True)


def recorded_config(**settings: Any) -> TrainConfig:
    """The settings of training of a study whose rows are older than some defaults."""
    older = {"uniform_groups": "drop", "shared_prefixes": False}
    return TrainConfig(betas=(0.9, 0.98), **older, **settings)
