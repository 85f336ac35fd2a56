"""Finds the model's own message between the control tokens of chat templates, in linear time."""

import re

_NAMES = (
    "im_start|im_end|endoftext|end_of_text|eot_id|eom_id|eot|end|return|call|start|start_header_id|user|system"
    "|assistant|begin_of_text|endofprompt|END_OF_TURN_TOKEN|START_OF_TURN_TOKEN"
)
CONTROL = re.compile(
    rf"<\|(?:{_NAMES})\|>|</s>|<eos>|<end_of_turn>|<start_of_turn>|\[/?INST\]"
    r"|<｜(?:end▁of▁sentence|User|Assistant|begin▁of▁sentence)｜>"
)
"""A control token of a chat template."""
_SIGNS = ("<|", "<｜", "</s>", "<eos>", "_turn>", "INST]")
_OPENING = re.compile(
    r"\s*(?:(?:<s>|<bos>|<\|begin_of_text\|>|<｜begin▁of▁sentence｜>"
    r"|<\|(?:im_start|start_header_id|start)\|>|<start_of_turn>|<\|assistant\|>|<｜Assistant｜>)"
    r"(?:(?:assistant|model)\b)?(?:<\|end_header_id\|>)?\s*)+"
)
_FINAL = "<|channel|>final<|message|>"


def without_opening(text: str) -> str | None:
    """The text without the control tokens that open it; None if it has channels, but no final one."""
    if "<|channel|>" in text:
        _, final, text = text.partition(_FINAL)
        if not final:
            return None
    opening = _OPENING.match(text)
    return text[opening.end() :] if opening else text


def own_message(text: str) -> str | None:
    r"""The first message of a completion: up to the first control token after those of `without_opening`.

    Example:
        >>> own_message("It is 25.<|im_end|>\n<|im_start|>user\nAnd 26?")
        'It is 25.'
        >>> own_message("<|channel|>analysis<|message|>Hm, 24.<|end|><|channel|>final<|message|>25")
        '25'
    """
    if "<" not in text and ("]" not in text or "INST]" not in text):
        return text
    if not any(sign in text for sign in _SIGNS):
        return text
    begun = without_opening(text)
    if begun is None:
        return None
    for token in CONTROL.finditer(begun):
        if token.group() != "</s>" or begun.find("<s>", 0, token.start()) < 0:  # "<s>24</s>" is struck out
            return begun[: token.start()]
    return begun
