"""Posteriors of an arm's mean score after n observations, by conjugate updates."""

from typing import Any, Literal, TypeAlias

import numpy as np
from pydantic import PositiveFloat

from mars_env.search.algorithm import Options

Sums: TypeAlias = Any
"""A number or an array of numbers, one for each arm."""


class BetaPrior(Options):
    """Scores in [0, 1] as (fractions of) successes; by default Jeffreys' prior, as TreeQuest has it."""

    kind: Literal["beta"] = "beta"
    a: PositiveFloat = 0.5
    b: PositiveFloat = 0.5

    def draw(self, rng: np.random.Generator, n: Sums, total: Sums, squares: Sums) -> Any:
        """Sample the mean score of each arm with n observations, their sum and the sum of their squares.

        Example:
            >>> rng = np.random.default_rng(0)
            >>> BetaPrior().draw(rng, np.array([900, 900]), np.array([0, 900]), np.array([0, 900])).round()
            array([0., 1.])
        """
        return rng.beta(self.a + total, self.b + (n - total))


class GaussianPrior(Options):
    """Scores as normal with unknown mean and variance: the normal-inverse-chi-squared prior.

    With the parameters of Murphy, Probabilistic Machine Learning: Advanced Topics, 3.4.3.3; the defaults are
    TreeQuest's.
    """

    kind: Literal["gaussian"] = "gaussian"
    m: float = 0.0
    kappa: PositiveFloat = 1.0
    nu: PositiveFloat = 1.0
    tau_square: PositiveFloat = 0.1

    def draw(self, rng: np.random.Generator, n: Sums, total: Sums, squares: Sums) -> Any:
        """As `BetaPrior.draw`: from the mean's marginal posterior, a shifted and scaled Student t."""
        mean = total / np.maximum(n, 1)
        spread = np.maximum(squares - total * mean, 0.0)  # rounding may take it below 0
        kappa = self.kappa + n
        nu = self.nu + n
        centre = (self.kappa * self.m + total) / kappa
        shrinkage = n * self.kappa * (self.m - mean) ** 2 / kappa
        tau_square = (self.nu * self.tau_square + spread + shrinkage) / nu
        return centre + np.sqrt(tau_square / kappa) * rng.standard_t(nu)
