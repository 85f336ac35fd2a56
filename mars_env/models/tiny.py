"""A tiny random model: to try a game and its training on one processor core, without a download."""

import string

from mars_env.lazy import needs
from mars_env.models.hf import HFModel

with needs("hf", "tiny_model needs torch and transformers"):
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM


def tiny_model(
    letters: str = string.printable,
    *,
    seed: int = 0,
    width: int = 64,
    context: int = 1024,
    name: str = "tiny",
) -> HFModel:
    """A transformer of two layers with random weights, one token for each letter: `width` is a multiple of 8.

    It knows nothing. In a minute it can learn the form of an answer and a few habits, which is enough to see
    that a reward reaches the weights; the fewer letters, the sooner. It reads anything else as padding.
    """
    pieces = ("<pad>", "<end>", *dict.fromkeys(letters))
    core = Tokenizer(models.WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r".|\n"), behavior="isolated")
    core.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        eos_token="<end>",
        clean_up_tokenization_spaces=False,
        model_max_length=context,
    )
    config = Qwen3Config(
        vocab_size=len(pieces),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=width // 4,
        max_position_embeddings=context,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):  # the weights' seed, and no one else's
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    return HFModel((model, tokenizer), name=name)
