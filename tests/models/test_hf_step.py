"""The fast decoding step gives the module's own logits, to the last bit, and steps aside where it cannot."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from mars_env.models import hf_step  # noqa: E402
from mars_env.models.hf_step import cache_for  # noqa: E402

SHAPE = {
    "vocab_size": 50,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "attn_implementation": "sdpa",
}


def model(kind="Qwen3", **settings):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SHAPE | settings)
    module = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():  # norms of ones and biases of zeros would hide what is left out
        for name, weight in module.named_parameters():
            if name.endswith(("norm.weight", "bias")):
                weight.uniform_(0.5, 1.5)
    return module


def steps_of(module, step, lengths):
    """The logits of five steps after prompts of these lengths, padded on the left."""
    width, rows = max(lengths), len(lengths)
    ids = torch.arange(rows * (width + 5)).view(rows, -1) * 7 % SHAPE["vocab_size"]
    real = torch.arange(width) >= width - torch.tensor(lengths)[:, None]
    places = torch.tensor(lengths)[:, None]
    padded = min(lengths) < width
    cache, found = cache_for(module), []
    with torch.no_grad():
        module(
            input_ids=ids[:, :width],
            attention_mask=real.long(),
            position_ids=(real.cumsum(-1) - 1).clamp(min=0),
            past_key_values=cache,
            use_cache=True,
        )
        for i in range(5):
            mask = torch.zeros(rows, 1, 1, width + i + 1)
            mask[:, 0, 0, :width].masked_fill_(~real, torch.finfo(torch.float32).min)
            found.append(step(ids[:, width + i], places + i, mask if padded else None, cache))
    return torch.stack(found)


def fast(module):
    with torch.no_grad():
        return hf_step.step_of(module, "sdpa")


@pytest.mark.parametrize("lengths", [(6, 6, 6), (6, 2, 4)])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("Qwen3", {}),
        ("Qwen3", {"num_key_value_heads": 4, "head_dim": 8, "tie_word_embeddings": True}),
        ("Qwen2", {}),
        ("Llama", {}),
        ("Llama", {"attention_bias": True, "mlp_bias": True}),
        ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}),
    ],
)
def test_the_logits_are_bitwise_the_modules_own(kind, settings, lengths):
    module = model(kind, **settings)
    step = fast(module)
    assert step.func is hf_step._bare_step
    assert torch.equal(
        steps_of(module, step, lengths), steps_of(module, hf_step.step_of(module, "eager"), lengths)
    )


def test_new_weights_are_seen():
    module = model()
    step = fast(module)
    before = steps_of(module, step, (3, 3))
    with torch.no_grad():
        module.model.layers[0].mlp.up_proj.weight.mul_(2.0)
    after = steps_of(module, step, (3, 3))
    assert not torch.equal(before, after)
    assert torch.equal(after, steps_of(module, hf_step.step_of(module, "eager"), (3, 3)))


def hook(module):
    module.model.layers[1].register_forward_hook(lambda *_: None)


def patch(module):
    module.model.norm.forward = lambda hidden: hidden


def replace(module):
    class Doubled(torch.nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    module.lm_head = Doubled(24, 50, bias=False)


def rescale(module):
    module.model.layers[0].mlp.act_fn = torch.nn.Tanh()
    module.model.layers[0].mlp.__class__ = type(
        "Other",
        (type(module.model.layers[0].mlp),),
        {"forward": lambda self, x: self.down_proj(x[..., :1] * self.up_proj(x))},
    )


@pytest.mark.parametrize("change", [hook, patch, replace, rescale])
def test_an_altered_model_is_called_itself(change):
    module = model()
    change(module)
    assert fast(module).func is hf_step._module_step


def test_other_models_and_attentions_are_called_themselves():
    assert hf_step.step_of(model(attn_implementation="eager"), "eager").func is hf_step._module_step
    gemma = model("Gemma")
    assert fast(gemma).func is hf_step._module_step
