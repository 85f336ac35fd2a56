"""Small tokenizers of several chat dialects: their control tokens, their templates, three kinds of text."""

from functools import cache

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from mars_env.models.requests import TokenWriter

LOOP = "{{%- for m in messages %}}{}{{%- endfor %}}{{%- if add_generation_prompt %}}{}{{% endif %}}"

DIALECTS = {
    "chatml": (
        ["<|im_start|>", "<|im_end|>", "<|endoftext|>"],
        ["<think>", "</think>", "<tool_call>", "</tool_call>"],
        LOOP.format(
            "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}", "<|im_start|>assistant\n"
        ),
    ),
    "llama3": (
        ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        ["<|python_tag|>"],
        "<|begin_of_text|>"
        + LOOP.format(
            "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' }}"
            "{{ m.content | trim + '<|eot_id|>' }}",
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
    ),
    "gemma": (
        ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"],
        ["<h1>", "</h1>", "\n\n"],
        "<bos>"
        + LOOP.format(
            "{{ '<start_of_turn>' + m.role + '\n' + m.content | trim + '<end_of_turn>\n' }}",
            "<start_of_turn>model\n",
        ),
    ),
    "mistral": (
        ["<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]"],
        [],
        "<s>"
        + LOOP.format(
            "{% if m.role == 'assistant' %}{{ m.content + '</s>' }}"
            "{% else %}{{ '[INST] ' + m.content + '[/INST]' }}{% endif %}",
            "",
        ),
    ),
    "deepseek": (
        ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"],
        ["<｜User｜>", "<｜Assistant｜>", "<think>", "</think>"],
        "<｜begin▁of▁sentence｜>"
        + LOOP.format(
            "{% if m.role == 'assistant' %}{{ '<｜Assistant｜>' + m.content + '<｜end▁of▁sentence｜>' }}"
            "{% else %}{{ '<｜User｜>' + m.content }}{% endif %}",
            "<｜Assistant｜>",
        ),
    ),
    "harmony": (
        ["<|start|>", "<|message|>", "<|end|>", "<|return|>", "<|channel|>"],
        [],
        LOOP.format(
            "{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}", "<|start|>assistant"
        ),
    ),
}
"""Special tokens, other added tokens and the template of each dialect."""

CORPUS = ["Correctness: Correct. The final answer is 42, and not <b>17</b> | x < y; a[i] >> 2\n\n"] * 3


def _bytes():
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, show_progress=False)
    core.train_from_iterator(CORPUS, trainer)
    return core


def _letters():
    core = Tokenizer(models.WordLevel({chr(i): i for i in range(1, 256)} | {"\0": 0}, unk_token="\0"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    return core


def _folded():
    core = _bytes()
    core.normalizer = normalizers.NFKC()
    return core


KINDS = {"bytes": _bytes, "letters": _letters, "folded": _folded}
"""Bytes with merges, one token a letter, and bytes after wide letters have been folded."""


def make_tokenizer(special, other, template, kind="bytes"):
    """A tokenizer with these added tokens."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=KINDS[kind](), eos_token=special[1])
    tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
    tokenizer.add_tokens([AddedToken(token, normalized=kind == "folded", special=False) for token in other])
    tokenizer.chat_template = template
    return tokenizer


@cache
def dialect(name, kind="bytes"):
    """The tokenizer of a dialect."""
    return make_tokenizer(*DIALECTS[name], kind)


class Writer(TokenWriter):
    """What any model with a tokenizer reads."""

    name = "writer"

    def __init__(self, tokenizer, **options):
        self.tokenizer, self.vocabulary, self.template_options = tokenizer, len(tokenizer), options


def control_ids(tokenizer, ids):
    """The ids that are added tokens, except white space."""
    names = {i for i, token in tokenizer.added_tokens_decoder.items() if str(token).strip()}
    return [i for i in ids if i in names]


def plain_ids(tokenizer, messages, **options):
    """What the template's plain rendering has."""
    return tuple(
        tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False, **options)
    )
