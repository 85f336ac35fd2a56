"""The ledger's intervals over seeds."""

import numpy as np
import pytest
from scipy import stats

from mars_env.errors import ConfigError
from studies.common.ledger import (
    LedgerRow,
    arm_difference,
    over_seeds,
    seed_text,
)


def row(arm="all", seed=0, settings="s1", **figures):
    about = {"commit": "c0ffee", "versions": {"python": "3.12.3"}, "settings": settings, "seconds": 2.5}
    return LedgerRow(arm=arm, seed=seed, figures=figures or {"system": 0.7}, **about)


def test_the_interval_over_seeds_is_students():
    values = [0.61, 0.66, 0.7, 0.72, 0.75]
    estimate = over_seeds(values)
    low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert (estimate.low, estimate.high) == (pytest.approx(low), pytest.approx(high))
    assert estimate.seeds == 5 and estimate.sd == pytest.approx(np.std(values, ddof=1))
    alone = over_seeds([0.5])
    assert (alone.mean, alone.low, alone.high, alone.sd) == (0.5, None, None, None)
    assert seed_text(alone) == "50.0"
    with pytest.raises(ConfigError):
        over_seeds([])


def test_differences_of_arms_are_paired_by_seed():
    a, b = [0.3, 0.5, 0.4], [0.6, 0.79, 0.7]
    rows = [row("none", s, system=x) for s, x in enumerate(a)]
    rows += [row("all", s, system=x) for s, x in enumerate(b)]
    rows += [row("all", 9, system=0.0)]  # has no partner
    estimate = arm_difference(rows, "none", "all", "system")
    test = stats.ttest_rel(b, a).confidence_interval(0.95)
    assert (estimate.low, estimate.high) == (pytest.approx(test.low), pytest.approx(test.high))
    assert estimate.seeds == 3
    with pytest.raises(ConfigError):
        arm_difference(rows, "none", "solver", "system")
