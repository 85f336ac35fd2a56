"""The miniatures' transformers and tokenizers: ordinary Hugging Face Qwen3 models, very small ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from mars_env.miniature.protocol import END, PAD, PATTERN, SPECIAL, VOCABULARY

TOKEN_IDS = {token: i for i, token in enumerate(VOCABULARY)}


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Size of a model: width, width of the feed-forward layers, layers. There are four heads."""

    hidden: int = 64
    feed_forward: int = 192
    layers: int = 3


def build_tokenizer(
    vocabulary: Sequence[str] = VOCABULARY, special: Sequence[str] = SPECIAL, pattern: str = PATTERN
) -> PreTrainedTokenizerFast:
    """The tokenizer: one token for each piece of the language; anything else becomes the padding token."""
    ids = {token: i for i, token in enumerate(vocabulary)}
    core = Tokenizer(models.WordLevel(ids, unk_token=PAD))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(f"{pattern}|."), behavior="isolated")
    core.decoder = decoders.Fuse()
    core.add_special_tokens(list(special))
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=END,
        unk_token=PAD,
        additional_special_tokens=list(special[2:]),
        clean_up_tokenization_spaces=False,
        padding_side="left",
        model_max_length=512,
    )


def build_model(
    seed: int, vocabulary: int = len(VOCABULARY), shape: ModelSize = ModelSize()
) -> Qwen3ForCausalLM:
    """A new model, by default of 64 dimensions and 3 layers.

    Embeddings start with a standard deviation of 1, and matrices with one over the square root of their
    inputs; those that write into the residual stream are smaller by the root of twice the layers (as in
    GPT-2).
    """
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=shape.hidden // 4,
        max_position_embeddings=512,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=False,
        pad_token_id=TOKEN_IDS[PAD],
        eos_token_id=TOKEN_IDS[END],
        bos_token_id=None,
        dtype="float32",
    )
    model = Qwen3ForCausalLM(config)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                std = 1.0 if "embed_tokens" in name else weight.shape[1] ** -0.5
                if name.endswith(("o_proj.weight", "down_proj.weight")):
                    std *= (2 * config.num_hidden_layers) ** -0.5
                weight.normal_(0.0, std, generator=random)
    return model
