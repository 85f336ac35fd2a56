"""The embedded `reports` set: documents of companies that do not exist, about which agents make questions."""

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from mars_env.problems.generated import MADE, Draft, generated_set
from mars_env.problems.problem_set import ProblemSet

_YEARS: Final = 5
DIVISIONS: Final = ("Paper", "Glass", "Timber", "Tools")
_FIRST: Final = (
    "Alder", "Birch", "Cedar", "Dale", "Elm", "Fern", "Glen", "Heath", "Iris", "Juniper", "Kestrel",
    "Linden", "Marsh", "North", "Osprey", "Pine", "Quarry", "Rowan", "Slate", "Thorn", "Upland", "Vale",
    "Willow", "Yarrow",
)  # fmt: skip
_SECOND: Final = (
    "bridge", "brook", "croft", "field", "ford", "gate", "hill", "holm", "ley", "mere", "mouth", "stead",
)  # fmt: skip
_THIRD: Final = ("Mills", "Works", "Brothers", "Trading", "Holdings", "Partners", "Group", "Industries")
_QUESTION: Final = (
    "Ask for one number about {}: a number of its reports, or what follows from several of them, "
    "such as a sum, a difference or how many of them are above a limit."
)


def reports_problems(*, seed: int = 0, split: str | None = None) -> ProblemSet:
    """The endless set of companies with their reports, for the game `spell`.

    A report tells revenue and costs in millions of euros, and the employees, of one of four divisions in one
    year; all are uniform between 100 and 999, and 100 and 4999. Metadata: ``documents``, the reports in a
    random order; ``other_documents``, those of another company; ``task``, always ``"number"``; ``company``.
    No company is in both splits, ``"train"`` (the default) and ``"test"``.

    Example:
        >>> problem = reports_problems(seed=0)[0]
        >>> problem.kind, problem.reference, len(problem.metadata["documents"])
        ('open', None, 20)
    """
    return generated_set("reports", _make, seed=seed, split=split)


def report(company: str, division: str, year: int, figures: Sequence[int]) -> str:
    """The text of one document, of revenue, costs and employees."""
    revenue, costs, employees = figures
    return (
        f"{company}, division {division}, report on the year {year}. Revenue was {revenue} million euros; "
        f"costs were {costs} million euros. The division had {employees} employees at the year's end."
    )


def _make(rng: random.Random) -> Iterator[Draft | None]:
    for (company, documents), (other, other_documents) in pairwise(_companies(rng)):
        metadata = {**MADE, "company": company, "task": "number", "documents": documents}
        metadata["other_documents"] = other_documents
        yield None if other == company else Draft(_QUESTION.format(company), None, metadata, "open")


def _companies(rng: random.Random) -> Iterator[tuple[str, list[str]]]:
    while True:
        company = f"{rng.choice(_FIRST)}{rng.choice(_SECOND)} {rng.choice(_THIRD)}"
        first = rng.randint(1980, 2004)
        documents = [
            report(company, division, first + i, [rng.randint(100, most) for most in (999, 999, 4999)])
            for i in range(_YEARS)
            for division in DIVISIONS
        ]
        rng.shuffle(documents)
        yield company, documents
