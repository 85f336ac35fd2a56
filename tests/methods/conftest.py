"""A tiny random Qwen3 with a character tokenizer."""

from tiny_models import _one_thread as _one_thread
from tiny_models import tiny_module as tiny_module
from tiny_models import tiny_pair as tiny_pair
from tiny_models import tiny_tokenizer as tiny_tokenizer
