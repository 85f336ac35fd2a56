"""The table of studies/README.md: the claims of all studies, judged on their ledgers.

`python -m studies.overview` writes the table; `--all` also the part of every study.
It runs nothing. For MarsRL and MARS2, which claims are in it was decided after they were run.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

from studies.common.ledger import seed_text, table
from studies.common.pages import STUDIES as FOLDER
from studies.common.pages import write
from studies.common.study import Study

PAGE: Final = FOLDER / "README.md"
NAMES: Final = (
    "marsrl",
    "mars2",
    "openrlhf",
    "marsrl_robustness",
    "marsrl_refining",
    "sums",
    "mars2_choice",
    "ruscarl",
    "rubrics",
    "echo",
    "promptcot",
    "spell",
    "smollm2",
    "tools",
    "tools_smollm2",
    "tools_verify",
    "credit",
)
STUDIES: Final[tuple[Study, ...]] = tuple(import_module(f"studies.{name}.study").STUDY for name in NAMES)


def overview() -> str:
    """The table."""
    lines = [
        (
            found.claim.text,
            f"[{study.task}]({study.name}/README.md)",
            study.starts,
            str(found.difference.seeds),
            seed_text(found.difference, signed=True),
            found.verdict,
            f"[plan]({study.plan.parent.name}/plan.md)" if study.plan else "none",
            f"`studies.{study.name}`{study.note}",
        )
        for study in STUDIES
        for found in study.judged()
    ]
    columns = (
        "claim",
        "task",
        "warm starts",
        "seeds",
        "effect, in points",
        "verdict",
        "plan",
        "repeat (`--check SEED`)",
    )
    return table(columns, lines)


def main(every: bool = False) -> None:
    """Write the table into studies/README.md, and perhaps the pages of all studies."""
    for study in STUDIES if every else ():
        study.write_page()
    write(PAGE, "overview", overview())


if __name__ == "__main__":
    main("--all" in sys.argv[1:])
