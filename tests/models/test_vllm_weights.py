"""What of vLLM's weights can be compared with a checkpoint's: stand-ins for its layers."""

import pytest
import torch
from torch import nn

from mars_env.models.vllm_weights import readable_tensors


class Fused(nn.Linear):
    """Several linear layers in one, as vLLM fuses them."""

    def __init__(self, width, sizes):
        super().__init__(width, sum(sizes))
        self.output_partition_sizes = sizes


class Padded(nn.Embedding):
    """An embedding whose vocabulary is padded."""

    org_vocab_size = 5


class Layer(nn.Module):
    """A model of one attention layer, with names as in vLLM's."""

    packed_modules_mapping = {"qkv_proj": ["q_proj", "k_proj", "v_proj"]}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.embed_tokens, self.attention = Padded(8, 4), nn.Module()
        self.attention.qkv_proj, self.attention.o_proj = Fused(4, [4, 2, 2]), nn.Linear(4, 4)


@pytest.mark.parametrize("held", ["packed", "divided", "quantised"])
def test_what_is_held_in_another_form_is_left_out(held):
    model = Layer()
    layer = model.attention.o_proj
    if held == "packed":
        layer.cpu_linear = object()
    elif held == "divided":
        layer.tp_size = 2
    else:
        layer.weight = nn.Parameter(layer.weight.to(torch.float8_e4m3fn), requires_grad=False)
    assert "attention.o_proj.weight" not in readable_tensors(model)
    assert "attention.q_proj.weight" in readable_tensors(model)
