"""Thinking blocks, which are never graded."""

UNCLOSED_THINKING = "the thinking block is not closed"


def after_thinking(text: str) -> str | None:
    """The text after the last ``</think>``; None if a ``<think>`` after it is not closed.

    Example:
        >>> after_thinking("<think>2 + 2</think>It is 4."), after_thinking("It is 4. <think>Or is it")
        ('It is 4.', None)
    """
    rest = text.rpartition("</think>")[2]
    return None if "<think>" in rest else rest
