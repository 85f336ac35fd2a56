"""The growing cache holds what the library's own does."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.cache_utils import DynamicLayer

from mars_env.models.hf_cache import GrowingLayer


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(1, 3),
    prompt=st.integers(1, 70),
    acts=st.lists(st.one_of(st.just("token"), st.integers(0, 2**16)), max_size=90),
)
def test_a_growing_layer_returns_the_keys_and_values_of_a_dynamic_one(rows, prompt, acts):
    generator, ours, theirs = torch.Generator().manual_seed(0), GrowingLayer(), DynamicLayer()
    tokens = prompt
    for act in ["token", *acts]:
        if act == "token":
            keys, values = torch.randn(2, rows, 2, tokens, 3, generator=generator)
            for one, other in zip(ours.update(keys, values), theirs.update(keys, values), strict=True):
                assert torch.equal(one, other)
            tokens = 1
        else:  # a number stands for the rows that are kept
            kept = [i for i in range(rows) if act >> i & 1] or [0]
            rows = len(kept)
            ours.reorder_cache(torch.tensor(kept))
            theirs.reorder_cache(torch.tensor(kept))
        assert ours.get_seq_length() == theirs.get_seq_length()
