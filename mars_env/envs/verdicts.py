"""Reading a Verifier's text: a strict grammar, so that "Incorrect" can never pass for "correct"."""

import re
from dataclasses import dataclass

_LINE = re.compile(r"^[ \t*_#>`-]*correctness[ \t*_`]*:[ \t]*(.*)$", re.IGNORECASE | re.MULTILINE)
_MARKS = " \t\r*_`.!"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether the solution passed, and whether the Verifier could not be read."""

    passed: bool
    malformed: bool


def read_judgement(text: str) -> Judgement:
    r"""The verdict on the last ``Correctness: Correct|Wrong`` line.

    Anything else is malformed and does not pass: a Verifier that cannot be read must not wave a solution
    through, and earns nothing. (MarsRL's public release looks for "correct" and so accepts "Incorrect".)

    Example:
        >>> read_judgement("All steps hold.\nCorrectness: Correct")
        Judgement(passed=True, malformed=False)
        >>> read_judgement("Correctness: Incorrect")
        Judgement(passed=False, malformed=True)
    """
    lines = _LINE.findall(text)
    word = lines[-1].strip(_MARKS).casefold() if lines else ""
    return Judgement(passed=word == "correct", malformed=word not in ("correct", "wrong"))


def bug_report(text: str) -> str:
    r"""What the Corrector gets to read: the Verifier's whole text, and never nothing.

    Example:
        >>> bug_report("Step 2 is wrong.\nCorrectness: Wrong")
        'Step 2 is wrong.\nCorrectness: Wrong'
        >>> bug_report(" \nCorrectness: Wrong").splitlines()[0]
        'The verifier judged this solution wrong and gave no details.'
    """
    if _LINE.sub("", text).strip():
        return text.strip()
    return f"The verifier judged this solution wrong and gave no details.\n{text.strip()}".strip()
