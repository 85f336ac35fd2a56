"""A tiny random Qwen3 with a character tokenizer, for tests of models and agents."""

import string

import pytest

CHARACTERS = string.digits + string.ascii_lowercase + "+-*/=.,;:?! ()\n"


def build_tokenizer():
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"<pad>": 0, "<eos>": 1, "<unk>": 2} | {c: 3 + i for i, c in enumerate(CHARACTERS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>", unk_token="<unk>"
    )


def build_module(seed: int = 0, **settings):
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = {
        "vocab_size": 3 + len(CHARACTERS), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 256,
        "tie_word_embeddings": False, "pad_token_id": 0, "eos_token_id": 1, "initializer_range": 0.5,
    } | settings  # fmt: skip
    return Qwen3ForCausalLM(Qwen3Config(**config)).eval()


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def tiny_module():
    return build_module


@pytest.fixture
def tiny_pair():
    return build_module(), build_tokenizer()


@pytest.fixture
def tiny_tokenizer():
    return build_tokenizer()
