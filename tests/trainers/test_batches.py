from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mars_env.errors import ConfigError
from mars_env.trainers.batches import collate, micro_batches
from mars_env.trainers.samples import given_sample
from mars_env.types import Completion

TEXT = Completion("", prompt_ids=(1, 2), token_ids=(3,))
GOOD = replace(given_sample(TEXT, "mars"), logprobs=(-0.5,), advantage=1.0)


def test_batches_pad_on_the_right_and_rows_trim():
    ids = {
        "prompt_ids": (5, 6, 7),
        "completion_ids": (8, 9),
        "logprobs": (-1.0, -2.0),
        "completion_mask": (1, 0),
    }
    batch = collate([GOOD, replace(GOOD, temperature=0.7, advantage=-1.0, **ids)], vocabulary=10)
    assert batch.ids.tolist() == [[1, 2, 3, 0, 0], [5, 6, 7, 8, 9]]
    assert batch.mask.tolist() == [[True, False], [True, False]]
    assert batch.rollout.tolist() == [[-0.5, 0.0], [-1.0, -2.0]]
    assert batch.temperatures.tolist() == pytest.approx([1.0, 0.7])
    alone = replace(batch, old=batch.rollout).rows(torch.tensor([0]))
    assert alone.ids.tolist() == [[1, 2, 3]]
    assert alone.old.tolist() == [[-0.5]]
    assert alone.advantages.tolist() == [[1.0]]
    assert alone.reference is None
    assert alone.to(torch.device("cpu")).mask.tolist() == [[True]]


def test_foreign_ids_are_refused():
    with pytest.raises(ConfigError):
        collate([GOOD], vocabulary=3)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 120))
def test_micro_batches_hold_every_row_once_within_the_budget(lengths, budget):
    table = torch.tensor(lengths)
    cuts = [rows.tolist() for rows in micro_batches(table, budget)]
    assert sorted(row for rows in cuts for row in rows) == list(range(len(lengths)))
    for rows in cuts:
        assert rows
        assert len(rows) == 1 or len(rows) * max(lengths[row] for row in rows) <= budget
