"""What the pages of studies are made with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mars_env.errors import ConfigError
from mars_env.files import write_atomically
from studies.common.claims import claims_table, judge
from studies.common.ledger import LedgerRow, arm_difference, arm_estimate, arms_table, origins, seed_text

STUDIES: Final = Path(__file__).parents[1]
SOLVER, SYSTEM = "solver_accuracy", "system_accuracy"
ANSWERS: Final = {SOLVER: "Solver", SYSTEM: "System"}
REPAIRS: Final = {
    "verifier_precision": "Verifier precision",
    "verifier_recall": "Verifier recall",
    "fix_rate": "fixes",
    "break_rate": "breaks",
}
"""Metrics of a team of Solver, Verifier and Corrector, and their titles."""


def write(page: Path, part: str, text: str) -> None:
    """Replace a part of a page, what stands between its two marks, and say so."""
    begin, end = f"<!-- begin {part} -->\n", f"<!-- end {part} -->\n"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed or begin in rest or end in before + after:
        raise ConfigError(f"{page} must hold the lines {begin.strip()!r} and {end.strip()!r}, once each")
    write_atomically(page, f"{before}{begin}{text.rstrip()}\n{end}{after}")
    print(f"wrote {page}")


def verbatim(arm: str, text: str) -> str:
    """A text of an arm as it was written."""
    block = "\n".join(f"    {line}".rstrip() for line in text.splitlines())
    return f"`{arm}`:\n\n{block}\n"


def seconds_of_seeds(rows: Sequence[LedgerRow]) -> list[float]:
    """The time that the rows of each seed took together."""
    return [sum(row.seconds for row in rows if row.seed == seed) for seed in {row.seed for row in rows}]


def reward_curve(rows: Sequence[LedgerRow], role: str, parts: int) -> list[tuple[int, float]]:
    """A role's mean reward in equal parts of the run, over all rows; none where it did not act."""
    by_part: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        rewards = row.detail["rewards"][role]
        for update, reward in enumerate(rewards):
            if reward is not None:
                by_part[update * parts // len(rewards)].append(reward)
    return [(part, sum(values) / len(values)) for part, values in sorted(by_part.items())]


def rendered(name: str, rows: Sequence[LedgerRow], every: Sequence[LedgerRow], **values: Any) -> str:
    """The Markdown that `results.md.jinja` in a study's folder makes of rows, or that all studies share.

    Beside the values it has the rows, and the tables of `every` row, those of another study among them.
    Nothing is escaped.
    """
    environment = Environment(
        loader=FileSystemLoader(STUDIES), undefined=StrictUndefined, keep_trailing_newline=True
    )
    template = environment.select_template([f"{name}/results.md.jinja", "common/results.md.jinja"])
    return template.render(
        rows=rows,
        estimate=partial(arm_estimate, every),
        difference=partial(arm_difference, every),
        judge=judge,
        seed_text=seed_text,
        arms_table=partial(arms_table, every),
        claims_table=partial(claims_table, every),
        verbatim=verbatim,
        minutes=sorted(round(row.seconds / 60) for row in rows),
        plans=sorted({row.detail["plan"][:8] for row in rows if "plan" in row.detail}),
        origins=origins(rows),
        **values,
    )
