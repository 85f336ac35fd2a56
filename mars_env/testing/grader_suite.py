"""The contract suite for graders; run it on your own."""

import asyncio
import re
from collections.abc import Iterable
from itertools import permutations

from mars_env.sync import call_async, run_sync
from mars_env.text import raised
from mars_env.types import Grade, Grader, Problem, Verdict

HOSTILE = (
    "", " ", "\x00", "\\boxed{", "\\boxed{}", "\\frac{1}{0}", "\ud800", "{" * 2000, "é" * 1000, "9" * 5000
)  # fmt: skip

_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_ARITHMETIC = re.compile(r"(?<![\w.])\d[\d.]*(?:\s*[-+*/^×÷]\s*\d[\d.]*)+(?![\w.])")
_SET = re.compile(r"(?<![\w\\])([a-zA-Z])\s*=\s*([-+*/^()\w\s]*[\w)])(?=[,.;$]|\s+and\b)")
_RELATION = re.compile(r"<=|>=|[=<>≤≥]|\\(?:leq?|geq?|equiv|neq?)(?![A-Za-z])")
_LITERAL = re.compile(r"(?:\w+\s*=)?\s*[-+]?[\d.,{}\s]*(?:\^\{?\\circ\}?)?|\\?[A-Za-z]+")
_MODULUS = re.compile(r"(?:divided by|modulo|mod)\s*\$?(\d+)\$?", re.IGNORECASE)
_ADDED = re.compile(r"\b(?:sums?|add|added|total|plus|altogether)\b", re.IGNORECASE)
_OPERATIONS = {
    "differ|subtract|minus|less|fewer|left": "(A) - (B)",
    "product|multipl|times": r"(A) \cdot (B)",
    "quotient|divide|ratio|probability|fraction|half|third|average": r"\frac{A}{B}",
    "power|exponent": "{A}^{B}",
    "common (?:divisor|factor)": r"\gcd(A, B)",
    "common multiple": r"\operatorname{lcm}(A, B)",
    "how many|ways|choose|chosen|committee|subset": r"\binom{A}{B}",
    "logarithm": r"\log_{A} {B}",
}
"""By words of a question: how a copy combines two of its expressions."""
_MOST_PARTS = 4
_LONGEST_PART = 200


def check_grader(grader: Grader, problem: Problem, right: str, wrong: str) -> None:
    """Check verdicts on a right and a wrong text, hostile strings, concurrency and event loops."""
    assert isinstance(grader, Grader), f"a grader needs a method grade, got {grader!r:.100}"

    async def grade(text: str) -> Grade:
        try:
            grade = await call_async(grader.grade, problem, text)
        except Exception as error:
            raise AssertionError(f"grade() raises on the text {text!r:.60}: {raised(error)}") from error
        assert isinstance(grade, Grade), f"a grader gives a Grade, not {grade!r:.100}"
        return grade

    async def many() -> list[Grade]:
        return list(await asyncio.gather(*(grade(right if i % 2 else wrong) for i in range(64))))

    for run in (asyncio.run, run_sync):  # two event loops, two threads
        assert run(grade(right)).verdict is Verdict.CORRECT, f"the right text {right!r} is not CORRECT"
        assert run(grade(wrong)).verdict is Verdict.WRONG, f"the wrong text {wrong!r} is not WRONG"
    for text in HOSTILE:
        verdict = run_sync(grade(text)).verdict
        assert verdict is not Verdict.CORRECT, f"the hostile text {text!r:.60} is CORRECT"
        assert verdict is not Verdict.UNKNOWN, f"the hostile text {text!r:.60} made its own verdict UNKNOWN"
    verdicts = [judged.verdict for judged in run_sync(many())]
    assert verdicts == [Verdict.WRONG, Verdict.CORRECT] * 32, "64 concurrent verdicts differ from single ones"


def check_copies(grader: Grader, problems: Iterable[Problem]) -> None:
    """Check that no copy of a question's own expressions is judged CORRECT.

    The answers of the problems are numbers, or solutions of equations and inequalities.

    Example:
        >>> from mars_env.grading import grader_for
        >>> check_copies(grader_for("math"), [Problem("p", "Find the sum of $7!$ and $2^5$.", "5072")])
    """

    async def grades(problem: Problem, answers: list[str]) -> list[Grade]:
        return list(await asyncio.gather(*(grader.grade(problem, rf"\boxed{{{one}}}") for one in answers)))

    for problem in problems:
        answers = [one for one in copies(problem.statement) if one != str(problem.reference)]
        for answer, grade in zip(answers, run_sync(grades(problem, answers)), strict=True):
            copied = f"the copy {answer!r:.200} of the question of {problem.id!r} is CORRECT"
            assert grade.verdict is not Verdict.CORRECT, copied


def copies(statement: str) -> list[str]:
    r"""Answers that copy a question, without any work: its expressions, but for numbers and names alone.

    Names are replaced by what the question sets them to, and expressions are combined by the operations that
    it names, a remainder among them.

    Example:
        >>> copies("Start with a = 7. Then b = a - 9. What is b?")
        ['(7) - 9']
        >>> copies("Find the remainder when $2^{10}$ is divided by $7$.")[0]
        '\\left(2^{10}\\right) \\bmod 7'
    """
    formulas = ["".join(match) for match in _FORMULA.findall(statement)]
    formulas += _ARITHMETIC.findall(_FORMULA.sub(" ", statement))
    sides = [side.strip(" .,;:") for formula in formulas for side in _RELATION.split(formula)]
    sides += _with_values(statement)
    parts = list(dict.fromkeys(side for side in sides if 0 < len(side) <= _LONGEST_PART))
    written = [*parts, *(formula.strip(" .,;:") for formula in formulas)]
    if _ADDED.search(statement):
        written += [" + ".join(rf"\left({term}\right)" for term in some) for some in (parts, parts[:2])]
    for words, pattern in _OPERATIONS.items():
        if re.search(words, statement, re.IGNORECASE):
            pairs = permutations(parts[:_MOST_PARTS], 2)
            written += [pattern.translate({ord("A"): a, ord("B"): b}) for a, b in pairs]
    written = [one for one in dict.fromkeys(written) if not _LITERAL.fullmatch(one)]
    moduli = dict.fromkeys(_MODULUS.findall(statement))
    return [rf"\left({one}\right) \bmod {modulus}" for one in written for modulus in moduli] + written


def _with_values(statement: str) -> list[str]:
    values: dict[str, str] = {}
    for name, value in _SET.findall(statement):
        for symbol, meaning in values.items():
            value = re.sub(rf"(?<![\w\\]){symbol}(?!\w)", f"({meaning})".replace("\\", r"\\"), value)
        if len(value) <= _LONGEST_PART:
            values[name] = value.strip()
    return list(values.values())
