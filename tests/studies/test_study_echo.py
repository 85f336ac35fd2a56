"""The study of rollouts and training apart: its parts, and that the page shows the ledger's rows."""

import asyncio
import threading
from pathlib import Path
from queue import Queue

import pytest
import torch

import studies.echo.study as study
from studies.common.claims import claims_table
from studies.common.program import settings_of

ROOT = Path(__file__).parents[2]
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
    found = {arm: asyncio.run(study.played(arm, 0, SMALL, runs)) for arm in (study.ALONE, "S = 0", "S = 2")}
    assert found["S = 0"]["detail"]["reward"] == found[study.ALONE]["detail"]["reward"]
    again = asyncio.run(study.played("S = 2", 0, SMALL, runs))
    for name in found["S = 2"]["figures"].keys() - set(study.MEASURED):
        assert again["figures"][name] == found["S = 2"]["figures"][name]
    assert found["S = 2"]["detail"]["oldest"] == 2 and found["S = 2"]["detail"]["dropped"] == 0
    assert set(study.MEASURED) <= found["S = 2"]["figures"].keys()


def test_the_clock_measures_the_learner_after_it_has_settled():
    clock = study.Clock(2)
    for at, waited in ((0.0, 9.0), (10.0, 5.0), (13.0, 1.0), (15.0, 0.5)):
        clock.log(len(clock.at) + 1, {"seconds/waited": waited})
        clock.at[-1] = at
    assert clock.figures() == {"idle": 1.5 / 5, "period": 2.5}


def test_the_page_shows_all_arms_and_seeds_of_the_ledger():
    made = study.LEDGER.rows(settings_of(study.RECIPE))
    assert sorted((row.arm, row.seed) for row in made) == sorted((a, s) for a in study.ARMS for s in range(5))
    assert not any((row.commit or "").endswith("-dirty") for row in made)
    page = (ROOT / "docs" / "echo.md").read_text(encoding="utf-8")
    assert claims_table(made, study.CLAIMS) in page
    assert study.exact(made) in page
    assert "on 5 of 5 seeds" in page and "In 45 of 45 runs" in page
