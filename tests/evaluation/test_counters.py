import asyncio
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import episode

from mars_env.evaluation.counters import Counters, Share, logged
from mars_env.loggers import Logger

TREES = [
    episode("p1", 0, "S- Vw C+ Vc"),
    episode("p1", 1, "S+ Vc"),
    episode("p2", 0, "S? Vw C+ Vc"),
    episode("p2", 1, "S- Vc"),
    episode("p3", 0, "S+", fault="m: no answer after 6 attempts"),
    episode("p3", 1, "S-", fault="m: no answer after 7 attempts"),
]


def totals(snapshot):
    """Everything but times."""
    timed = {"seconds", "turns_per_second", "tokens_per_second", "seconds_left"}
    return {item.name: getattr(snapshot, item.name) for item in fields(snapshot) if item.name not in timed}


@given(st.randoms(use_true_random=False), st.booleans())
def test_counts_do_not_depend_on_the_order_or_on_repetition(rng, repeated):
    """Trees come in any order, some of their turns before them, once or twice."""
    counters = Counters(len(TREES), prices={"policy": (1.0, 4.0)}, clock=lambda: 0.0)
    for tree in rng.sample(TREES, len(TREES)):
        for turn in tree.turns:
            if rng.random() < 0.5:
                counters.count_turns([turn] * (1 + repeated))
        counters.count_tree(tree)
    assert totals(counters.snapshot()) == {
        "episodes": 6,
        "total": 6,
        "turns": 14,
        "read_tokens": 14 * 5,
        "sampled_tokens": 14 * 10,
        "cost": pytest.approx((70 * 1 + 140 * 4) / 1e6),
        "accuracy": Share(3, 4),
        "correct": {"solver": Share(2, 5), "corrector": Share(2, 2)},
        "accepts": {"verifier": Share(4, 6)},
        "faults": {"m: no answer after N attempts": 2},
        "unknown": {"the worker was lost": 1},
    }


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_intervals_hold_their_share(counts):
    share = Share(*counts)
    low, high = share.interval
    assert 0 <= low <= share.value + 1e-12 and share.value - 1e-12 <= high <= 1 and low < high


async def test_metrics_go_to_a_logger():
    class Log(Logger):
        rows, ended = [], False

        def log(self, step, values):
            self.rows.append((step, dict(values)))

        def close(self):
            self.ended = True

    counters, log = Counters(len(TREES)), Log()
    async with logged(counters, log, every=0.001):
        while len(log.rows) < 2:
            await asyncio.sleep(0.001)
        for tree in TREES:
            counters.count_tree(tree)
    step, values = log.rows[-1]
    assert log.ended and step == values["rollout/turns"] == 14
    assert values["rollout/accepts/verifier"] == counters.snapshot().accepts["verifier"].value
    assert all(isinstance(value, float) for value in values.values())


async def test_a_logger_that_fails_costs_no_run(caplog):
    class Failing(Logger):
        def log(self, step, values):
            raise OSError(28, "No space left on device")

        def close(self):
            raise RuntimeError("lost")

    async with logged(Counters(), Failing()):
        pass
    assert "No space left" in caplog.text and "RuntimeError: lost" in caplog.text
