"""The players of the runs kept in this folder."""


def answer(observation):
    """Play every place of solve-verify-correct: a guess, a verdict, a second guess."""
    if "solution" in observation and "report" not in observation:
        return "The sum was not checked.\nCorrectness: Wrong"
    return r"I get \boxed{25}."


def program(observation):
    """Write a program."""
    return "```python\nprint(input())\n```"
