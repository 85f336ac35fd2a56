"""The numbers of the comparison; those of a game's training and play are in its own study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import PositiveInt

from studies.common.ledger import Frozen
from studies.mars2.recipe import QUICK as MARS2_QUICK
from studies.mars2.warm_start import WarmStart as SearchStart
from studies.sums.study import QUICK as SUMS_QUICK
from studies.sums.warm_start import WarmStart as SumsStart


class CreditRecipe(Frozen):
    """Warm starts, and by game how much is sampled in training and evaluated."""

    sums: SumsStart = SumsStart()
    search: SearchStart = SearchStart()
    tokens: Mapping[str, PositiveInt] = {"arithmetic": 400_000, "sums": 600_000, "search": 100_000}
    """Tokens that a run samples in training; the update that reaches them is the last."""
    problems: Mapping[str, PositiveInt] = {"arithmetic": 1000, "sums": 1000, "search": 250}
    """Held-out problems of an evaluation."""


RECIPE: Final = CreditRecipe()
QUICK: Final = CreditRecipe(
    sums=SUMS_QUICK.warm_start,
    search=MARS2_QUICK.warm_start,
    tokens={"arithmetic": 1, "sums": 1, "search": 1},
    problems={"arithmetic": 4, "sums": 4, "search": 2},
)
"""One update of each arm: everything runs. Its figures mean nothing."""
