import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from mars_env.errors import ConfigError
from studies.common.head_padding import pad_heads

SHAPE = {
    "vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.3,
}  # fmt: skip


def randomised(model):
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms too: they begin as zeros and ones
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return model.eval()


def qwen3(tiny_module):
    return tiny_module()


def qwen2(tiny_module):  # its projections have biases
    return Qwen2ForCausalLM(Qwen2Config(**SHAPE, tie_word_embeddings=True))


@pytest.mark.parametrize("make", [qwen3, qwen2])
@pytest.mark.parametrize("times", [1, 4])
@torch.no_grad()
def test_wide_heads_compute_the_same(make, times, tiny_module):
    narrow = randomised(make(tiny_module))
    wide = pad_heads(narrow, 8 * times)
    ids = torch.randint(50, (2, 40), generator=torch.Generator().manual_seed(1))
    expected = narrow(input_ids=ids).logits
    assert expected.std() > 0.3
    torch.testing.assert_close(wide(input_ids=ids).logits, expected, rtol=1e-3, atol=1e-4)
    assert wide.config.head_dim == 8 * times
    assert getattr(narrow.config, "head_dim", 8) == 8  # unchanged


def test_what_cannot_be_padded_is_refused(tiny_module):
    with pytest.raises(ConfigError):
        pad_heads(tiny_module(), 12)
    scaled = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}
    with pytest.raises(ConfigError):
        pad_heads(tiny_module(rope_parameters=scaled), 16)
