import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from mars_env.models.hf_decoding import draw, filtered


def test_a_draw_never_takes_an_impossible_token():
    table = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]]).log().repeat(3, 1)
    uniforms = torch.tensor([[0.0], [0.5], [1 - 2**-53]], dtype=torch.float64)
    assert draw(table, uniforms)[:, 0].tolist() == [1, 3, 3]


@given(
    logits=st.lists(st.integers(-20, 20), min_size=1, max_size=8, unique=True),
    top_p=st.floats(0.05, 1),
    top_k=st.integers(1, 9),
)
def test_filters_agree_with_the_plain_definition(logits, top_p, top_k):
    values = [logit / 4 for logit in logits]
    kept = filtered(torch.tensor([values]), torch.tensor([[top_p]]), torch.tensor([[top_k]]))[0].isfinite()
    order = sorted(range(len(values)), key=lambda i: -values[i])[:top_k]
    total = sum(math.exp(values[i]) for i in order)
    before, least, most = 0.0, set(), set()
    for i in order:  # rounding may go either way within the margin
        if before < top_p - 1e-4 or not before:
            least.add(i)
        if before < top_p + 1e-4:
            most.add(i)
        before += math.exp(values[i]) / total
    assert least <= set(torch.nonzero(kept)[:, 0].tolist()) <= most
