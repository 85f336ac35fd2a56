import torch

from mars_env.models.hf_step import CHUNK, GrowingLayer


def test_a_layer_holds_what_it_was_given_in_order():
    torch.manual_seed(0)
    layer, given = GrowingLayer(), []
    for width in (5, 1, CHUNK, 1, 3):  # beyond its room, which grows
        part = torch.randn(2, 3, width, 4)
        given.append(part)
        keys, values = layer.update(part, -part)
    assert torch.equal(keys, torch.cat(given, 2)) and torch.equal(values, -keys)
    assert layer.get_seq_length() == CHUNK + 10


def test_rows_are_repeated_and_dropped():
    torch.manual_seed(0)
    layer, prompts, following = GrowingLayer(), torch.randn(2, 1, 3, 4), torch.randn(3, 1, 1, 4)
    layer.update(prompts, prompts)
    layer.reorder_cache(torch.tensor([0, 0, 1]))
    layer.update(following, following)
    layer.reorder_cache(torch.tensor([2, 0]))
    last = torch.randn(2, 1, 1, 4)
    keys, _ = layer.update(last, last)
    assert torch.equal(keys, torch.cat([prompts[[1, 0]], following[[2, 0]], last], 2))
