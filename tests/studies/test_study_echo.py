"""The study of rollouts and training apart: its parts, and what is exact."""

import asyncio
import threading
from queue import Queue

import pytest
import torch

import studies.echo.study as study
from studies.common.study import Run

SMALL = study.RECIPE.model_copy(update={
    "warm_start": 2, "steps": 4, "samples": 1, "locks": 2, "settled": 1,
    "update_seconds": 0.01, "spread_seconds": 0.01, "rollout_seconds": 0.01,
})  # fmt: skip


@pytest.fixture
def runs():
    """A sampler in a thread instead of a process."""
    torch.set_num_threads(1)
    queue = Queue()
    thread = threading.Thread(target=study.sampler, args=(queue,), daemon=True)
    thread.start()
    yield queue
    queue.put(None)
    thread.join(30)


@pytest.mark.slow
def test_a_row_has_all_figures_and_repeats_but_for_the_times(runs):
    def played(arm):
        return asyncio.run(study.play([arm], Run(0, SMALL, None, runs)))[arm]

    found = {arm: played(arm) for arm in (study.ALONE, "S = 0", "S = 2")}
    assert found["S = 0"].detail["reward"] == found[study.ALONE].detail["reward"]
    again = played("S = 2")
    for name in found["S = 2"].figures.keys() - set(study.MEASURED):
        assert again.figures[name] == found["S = 2"].figures[name]
    assert found["S = 2"].detail["oldest"] == 2 and found["S = 2"].detail["dropped"] == 0
    assert set(study.MEASURED) <= found["S = 2"].figures.keys()


def test_the_clock_measures_the_learner_after_it_has_settled():
    clock = study.Clock(2)
    for at, waited in ((0.0, 9.0), (10.0, 5.0), (13.0, 1.0), (15.0, 0.5)):
        clock.log(len(clock.at) + 1, {"seconds/waited": waited})
        clock.at[-1] = at
    assert clock.figures() == {"idle": 1.5 / 5, "period": 2.5}


def test_what_must_be_exact_is_exact_in_the_ledger():
    found = study.shown(study.STUDY.rows())["more"]
    assert "on 5 of 5 seeds" in found and "In 45 of 45 runs" in found
