"""A tiny random checkpoint that reads any text, and a reward that varies among its texts."""

import zlib


def byte_tokenizer():
    """A token for each byte: any text can be read."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = ["<pad>", "<end>", *letters]
    core = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<end>")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    return tokenizer


def tiny_checkpoint(path, seed=0, hidden=64, tied=False):
    """A random model that reads any text."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer = byte_tokenizer()
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=32, max_position_embeddings=4096,
        tie_word_embeddings=tied, eos_token_id=1, pad_token_id=0, bos_token_id=None,
    )  # fmt: skip
    Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def tiny_mixture(path, seed=0, expert=96):
    """A random Qwen3-MoE: 3 layers of 16 experts, 4 of which read a token; 2.0 million parameters."""
    import torch
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    tokenizer = byte_tokenizer()
    torch.manual_seed(seed)
    config = Qwen3MoeConfig(
        vocab_size=len(tokenizer), hidden_size=128, moe_intermediate_size=expert, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=32, num_experts=16, num_experts_per_tok=4,
        norm_topk_prob=True, max_position_embeddings=2048, initializer_range=0.1,
        tie_word_embeddings=False, eos_token_id=1, pad_token_id=0, bos_token_id=None,
    )  # fmt: skip
    Qwen3MoeForCausalLM(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def varied(turn, path, problem):
    """0 to 1, depending only on the text; two texts hardly ever have the same, so that every group trains."""
    return zlib.crc32(turn.text.encode("utf-8", "replace")) % 1009 / 1008
