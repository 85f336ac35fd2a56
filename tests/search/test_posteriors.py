import numpy as np
import pytest
from scipy import stats

from mars_env.search import BetaPrior, GaussianPrior

SCORES = [0.0, 0.3, 0.3, 1.0, 0.7]


def sums(scores):
    return len(scores), float(sum(scores)), float(sum(score * score for score in scores))


def draws(prior, scores, number=4000):
    n, total, squares = sums(scores)
    return prior.draw(
        np.random.default_rng(0), np.full(number, n), np.full(number, total), np.full(number, squares)
    )


@pytest.mark.parametrize("scores", [[], [1.0], SCORES])
def test_beta_is_conjugate(scores):
    posterior = stats.beta(0.5 + sum(scores), 0.5 + len(scores) - sum(scores))
    assert stats.kstest(draws(BetaPrior(), scores), posterior.cdf).pvalue > 0.001


@pytest.mark.parametrize("scores", [[], [1.0], SCORES])
def test_the_gaussian_mean_is_the_student_t_of_the_two_step_draw(scores):
    """Variance from its inverse gamma, then the mean given it: the textbook's two steps."""
    prior = GaussianPrior(m=0.2, kappa=2.0, nu=3.0, tau_square=0.1)
    n, mean = len(scores), np.mean(scores) if scores else 0.0
    kappa, nu = 2.0 + n, 3.0 + n
    centre = (2.0 * 0.2 + n * mean) / kappa
    spread = sum((score - mean) ** 2 for score in scores)
    tau_square = (3.0 * 0.1 + spread + n * 2.0 * (0.2 - mean) ** 2 / kappa) / nu
    variance = stats.invgamma.rvs(nu / 2, scale=nu * tau_square / 2, size=4000, random_state=1)
    means = np.random.default_rng(2).normal(centre, np.sqrt(variance / kappa))
    assert stats.ks_2samp(draws(prior, scores), means).pvalue > 0.001
