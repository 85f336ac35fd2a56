"""Thompson sampling among thousands of children, without a draw for each.

A child with the distribution function F draws below x with the probability F(x). So does the highest point
of a Poisson process that has ``-log F(x)`` points above x on average, and all children's processes are one.
Only its points above a bar are sampled: how many there are, then the child and the height of each.
"""

from typing import Any, TypeAlias

import numpy as np

from mars_env.search.posteriors import BetaPrior, GaussianPrior

Rows: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
"""n, total and squares of each child."""

_BLOCK = 256
_LEAST, _POINTS, _MOST = 6, 12, 30
"""How many points are expected above a bar: at least, at most when it is new, and at most later."""


class Crowd:
    """How many points of each child are expected above a bar, which only the best children often reach."""

    def __init__(self, prior: BetaPrior | GaussianPrior, rows: Rows) -> None:
        self._prior = prior
        self._points = np.zeros((2 * len(rows) // _BLOCK + 1, _BLOCK))  # has room for as many children again
        many, few = np.exp([-_POINTS, -_POINTS / len(rows)])
        low, high = prior.quantile(many, *rows.T).max(), prior.quantile(few, *rows.T).max()
        for _ in range(30):
            middle = (low + high) / 2
            expected = self._expected(rows, middle).sum()
            low, high = (middle, high) if expected > _POINTS else (low, middle)
            if 1.5 * _LEAST < expected <= _POINTS:
                break
        self._bar = high
        self._points.reshape(-1)[: len(rows)] = self._expected(rows, self._bar)
        self._of_block = self._points.sum(axis=1)

    def update(self, rows: Rows, child: int) -> bool:
        """A child's row was changed or added. False: make a new crowd, the bar or the room no longer fits."""
        block, place = divmod(child, _BLOCK)
        if block == len(self._points):
            return False
        self._points[block, place] = self._expected(rows[child], self._bar)
        self._of_block[block] = self._points[block].sum()
        return bool(_LEAST <= self._of_block.sum() <= _MOST)

    def draw(self, rows: Rows, rng: np.random.Generator) -> int:
        """The child that draws highest."""
        up_to = self._of_block.cumsum()
        number = rng.poisson(up_to[-1])
        if number == 0:
            return self._draw_below_bar(rows, rng)
        blocks = up_to.searchsorted((1 - rng.random(number)) * up_to[-1])
        up_to = self._points[blocks].cumsum(axis=1)
        places = (up_to < (1 - rng.random((number, 1))) * up_to[:, -1:]).sum(axis=1)
        children = blocks * _BLOCK + places
        levels = np.exp(-rng.random(number) * self._points[blocks, places])
        return int(children[self._prior.quantile(levels, *rows[children].T).argmax()])

    def _draw_below_bar(self, rows: Rows, rng: np.random.Generator) -> int:
        """The child that draws highest, given that none is above the bar."""
        draws = self._prior.draw(rng, *rows.T)
        while (above := np.flatnonzero(draws > self._bar)).size:
            draws[above] = self._prior.draw(rng, *rows[above].T)
        return int(draws.argmax())

    def _expected(self, rows: Rows, bar: float) -> Any:
        with np.errstate(divide="ignore"):
            return -np.log(self._prior.below(bar, *rows.T))
