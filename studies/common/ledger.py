"""The results ledger: one row per run, append-only, so that seeds accumulate over machines and days.

A table takes rows of one settings hash, so it never mixes settings. Intervals here are over *seeds*
(Student's t), because the run is what varies; over problems see `statistics`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError
from scipy import stats

from mars_env.errors import ConfigError, StoreError, explained
from mars_env.evaluation.provenance import DIRTY
from mars_env.evaluation.tables import Table, as_markdown
from mars_env.text import brief


class Frozen(BaseModel):
    """The base of recipes and rows: no field changes, and there are no others."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class LedgerRow(Frozen):
    """One run of one arm."""

    arm: str
    seed: int
    commit: str | None = None
    """From `provenance`; None outside a git checkout."""
    versions: dict[str, str] = {}
    """From `provenance`; rows of old ledgers have none."""
    settings: str
    """From `settings_hash`."""
    seconds: FiniteFloat
    figures: dict[str, FiniteFloat]
    """The figures by name; plain numbers."""
    detail: dict[str, Any] = {}
    """Plain data beside the figures: a training curve, the counts."""


def settings_hash(settings: Mapping[str, Any]) -> str:
    """A hash of everything that decides a result except the arm and the seed, of plain data."""
    with explained(ConfigError, "only plain data can be hashed", TypeError, ValueError):
        data = json.dumps(settings, sort_keys=True, allow_nan=False)
    return hashlib.sha256(data.encode()).hexdigest()[:12]


class Ledger:
    """A jsonl file of rows that only grows."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def rows(self, settings: str | None = None) -> list[LedgerRow]:
        """All rows in the order of writing, or those of one settings hash; a cut last line is none."""
        if not self.path.exists():
            return []
        *lines, _ = self.path.read_bytes().split(b"\n")
        rows = []
        for number, line in enumerate(lines, 1):
            with explained(StoreError, f"restore or remove {self.path}, line {number}", ValidationError):
                rows.append(LedgerRow.model_validate_json(line))
        return [row for row in rows if settings is None or row.settings == settings]

    def append(self, row: LedgerRow) -> None:
        """Add a row, durably and safely from several processes; none is added twice."""
        if not row.versions:
            raise StoreError(
                f"the row of arm {row.arm!r}, seed {row.seed} names no versions; "
                "take its commit and versions from mars_env.evaluation.provenance"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if any(_key(row) == _key(old) for old in self.rows()):
                raise StoreError(
                    f"{self.path} already holds arm {row.arm!r}, seed {row.seed} of the settings "
                    f"{row.settings}; choose a fresh seed"
                )
            file.seek(0)
            data = file.read()
            file.truncate(data.rfind(b"\n") + 1)  # a row that a kill cut off
            file.write(row.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def missing(self, arms: Iterable[str], seeds: Iterable[int], settings: str) -> list[tuple[str, int]]:
        """The (arm, seed) pairs that have no row under these settings, arm by arm."""
        there = {(row.arm, row.seed) for row in self.rows(settings)}
        wanted = list(dict.fromkeys(seeds))
        return [(arm, seed) for arm in arms for seed in wanted if (arm, seed) not in there]


def _key(row: LedgerRow) -> tuple[str, int, str]:
    return row.arm, row.seed, row.settings


@dataclass(frozen=True, slots=True)
class SeedEstimate:
    """A mean over seeds with its 95% t-interval; no ends and no standard deviation with fewer than two."""

    mean: float
    low: float | None
    high: float | None
    seeds: int
    sd: float | None


def over_seeds(values: Sequence[float]) -> SeedEstimate:
    """Mean and 95% t-interval of one figure over seeds."""
    if not values:
        raise ConfigError("there is no seed to average over")
    array = np.asarray(values, dtype=np.float64)
    mean = float(array.mean())
    if len(array) < 2:
        return SeedEstimate(mean, None, None, len(array), None)
    sd = float(array.std(ddof=1))
    half = float(stats.t.ppf(0.975, len(array) - 1)) * sd / float(np.sqrt(len(array)))
    return SeedEstimate(mean, mean - half, mean + half, len(array), sd)


def _one_setting(rows: Sequence[LedgerRow]) -> None:
    hashes = {row.settings for row in rows}
    if len(hashes) > 1:
        raise ConfigError(
            f"the rows come from {len(hashes)} settings ({', '.join(sorted(hashes))}), which one table must "
            "not mix; choose one with Ledger.rows(settings)"
        )
    keys = [_key(row) for row in rows]
    if len(set(keys)) < len(keys):
        raise ConfigError("the rows hold an arm and seed twice; a table counts each run once")


def _by_seed(rows: Sequence[LedgerRow], arm: str, figure: str) -> dict[int, float]:
    return {row.seed: row.figures[figure] for row in rows if row.arm == arm and figure in row.figures}


def arm_estimate(rows: Sequence[LedgerRow], arm: str, figure: str) -> SeedEstimate:
    """One figure of one arm over its seeds."""
    _one_setting(rows)
    values = _by_seed(rows, arm, figure)
    if not values:
        raise ConfigError(f"no row of the arm {arm!r} holds the figure {figure!r}")
    return over_seeds(list(values.values()))


def seed_differences(
    rows: Sequence[LedgerRow], arm_a: str, arm_b: str, figure: str, figure_b: str | None = None
) -> dict[int, float]:
    """Arm b minus arm a by seed, over the seeds that both have, in the order of the seeds."""
    _one_setting(rows)
    a, b = _by_seed(rows, arm_a, figure), _by_seed(rows, arm_b, figure_b or figure)
    shared = sorted(a.keys() & b.keys())
    if not shared:
        raise ConfigError(f"the arms {arm_a!r} and {arm_b!r} share no seed with the figure {figure!r}")
    return {seed: b[seed] - a[seed] for seed in shared}


def arm_difference(
    rows: Sequence[LedgerRow], arm_a: str, arm_b: str, figure: str, figure_b: str | None = None
) -> SeedEstimate:
    """Arm b minus arm a over the seeds that both have, paired by seed; perhaps of another figure of arm b."""
    return over_seeds(list(seed_differences(rows, arm_a, arm_b, figure, figure_b).values()))


def seeds_of(text: str) -> list[int]:
    """Seeds from a string such as "0-4" or "0,2,7", each once."""
    try:
        ends = [part.partition("-") for part in text.split(",")]
        parts = [range(int(low), int(high or low) + 1) for low, _, high in ends]
    except ValueError:
        parts = [range(0)]
    if not all(parts):
        raise ConfigError(f"seeds are given as 0-4 or 0,2,7, not as {brief(text)}")
    return list(dict.fromkeys(seed for part in parts for seed in part))


def seed_text(estimate: SeedEstimate, signed: bool = False) -> str:
    """A rate over seeds in percent with its interval, or with `signed` a difference of two in points."""
    return rate_text(estimate.mean, estimate.low, estimate.high, signed)


def rate_text(rate: float, low: float | None, high: float | None, signed: bool = False) -> str:
    """A rate, or a difference of two, with its interval, which is clipped to what either can be.

    It still covers the mean as often.
    """
    form = "+.1f" if signed else ".1f"
    text = f"{100 * rate:{form}}"
    if low is None or high is None:
        return text
    return f"{text} [{100 * max(low, -1.0 if signed else 0.0):{form}}, {100 * min(high, 1.0):{form}}]"


def origins(rows: Sequence[LedgerRow]) -> str:
    """One paragraph on where the rows of a table come from: commits, uncommitted changes, versions."""
    commits = Counter(_short(row.commit) for row in rows)
    named = ", ".join(f"{commit}: {count}" for commit, count in commits.items())
    where = f" ({named})" if len(commits) <= 8 else ""  # the ledger itself names them
    parts = [f"{_rows(len(rows))} of {len(commits)} commit{'s' * (len(commits) > 1)}{where}."]
    mixed = [
        seed
        for seed in sorted({row.seed for row in rows})
        if len({row.commit for row in rows if row.seed == seed}) > 1
    ]
    if mixed:
        parts.append(
            "The arms of one seed come from different commits where the seed is "
            f"{', '.join(map(str, mixed))}."
        )
    known = Counter(
        ", ".join(f"{name} {number}" for name, number in sorted(row.versions.items()))
        for row in rows
        if row.versions
    )
    if len(known) == 1:
        parts.append(f"Versions: {next(iter(known))}.")
    elif known:
        parts.append("Versions: " + "; ".join(f"{text} ({_rows(n)})" for text, n in known.items()) + ".")
    unknown = len(rows) - known.total()
    if unknown:
        parts.append(f"Versions were not recorded in {_rows(unknown)}.")
    return " ".join(parts)


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"


def _short(commit: str | None) -> str:
    if commit is None:
        return "no checkout"
    return commit.removesuffix(DIRTY)[:8] + DIRTY * commit.endswith(DIRTY)


def table(heads: Iterable[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table for a page; its cells may hold Markdown."""
    return as_markdown(Table(tuple(heads), tuple(map(tuple, lines))), markup=True) + "\n"


def arms_table(
    rows: Sequence[LedgerRow],
    arms: Sequence[str],
    figures: Mapping[str, str],
    differences: Collection[str] = (),
) -> str:
    """A Markdown table: one line per arm that has rows, one column per figure, mean and interval over seeds.

    `figures` are column heads by name; those in `differences` are differences of two rates and get a sign.
    """
    _one_setting(rows)
    lines = []
    for arm in arms:
        seeds = sorted(row.seed for row in rows if row.arm == arm)
        if not seeds:
            continue
        found = {figure: list(_by_seed(rows, arm, figure).values()) for figure in figures}
        cells = [
            seed_text(over_seeds(values), signed=figure in differences) if values else "–"
            for figure, values in found.items()
        ]
        lines.append((arm, ", ".join(map(str, seeds)), *cells))
    return table(("Arm", "Seeds", *figures.values()), lines)
