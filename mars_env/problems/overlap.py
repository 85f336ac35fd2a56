"""Decontamination: which problems share a run of words with problems that are to be tested on."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mars_env.errors import ConfigError
from mars_env.problems.problem_set import ProblemSet


@dataclass(frozen=True, slots=True)
class NGrams:
    """The runs of n words of some texts, to find them in others; a text of fewer words counts as one run.

    PromptCoT 2.0 names n = 13 only; the rest is our choice.
    """

    n: int
    runs: frozenset[tuple[str, ...]]

    @classmethod
    def of(cls, texts: Iterable[str], n: int = 13) -> "NGrams":
        """The runs of some texts."""
        if n < 1:
            raise ConfigError(f"n-grams need n of at least 1, got {n}")
        return cls(n, frozenset(run for text in texts for run in _runs(split_words(text), n)))

    def found_in(self, text: str) -> tuple[str, ...] | None:
        """The first run that a text contains; None if it contains none."""
        words = split_words(text)
        sizes = {len(run) for run in self.runs}  # n, and the lengths of shorter texts
        runs = (tuple(words[start : start + size]) for start in range(len(words)) for size in sizes)
        return next((run for run in runs if run in self.runs), None)


def decontaminate(
    problems: ProblemSet, *protected: Iterable[str] | ProblemSet, n: int = 13
) -> tuple[ProblemSet, dict[str, str]]:
    """The problems without a run of n words of a protected text, and the run for each id that was left out.

    A `ConfigError` if a set is endless, or n is below 1.

    Example:
        >>> from mars_env.types import Problem
        >>> made = ProblemSet("made", [Problem("a", "What is one plus one?"), Problem("b", "Why not?")])
        >>> clean, removed = decontaminate(made, ["So what is one plus two?"], n=4)
        >>> [problem.id for problem in clean], removed
        (['b'], {'a': 'what is one plus'})
    """
    for each in (problems, *protected):
        if isinstance(each, ProblemSet) and each.endless:
            raise ConfigError(f"cannot compare all of the endless {each.name!r}: take problems[:1000]")
    runs = NGrams.of((text for each in protected for text in _texts(each)), n)
    removed = {p.id: " ".join(run) for p in problems if (run := runs.found_in(p.statement))}
    return problems.filter(lambda problem: problem.id not in removed), removed


def split_words(text: str) -> list[str]:
    """The words of a text, in small letters; a sign is a word, too, except ``$``, which marks formulas."""
    return re.findall(r"\w+|[^\w\s$]", text.casefold())


def _runs(words: Sequence[str], n: int) -> Iterable[tuple[str, ...]]:
    if not words:
        return ()
    return (tuple(words[start : start + n]) for start in range(max(1, len(words) - n + 1)))


def _texts(protected: Iterable[str] | ProblemSet) -> Iterable[str]:
    if isinstance(protected, ProblemSet):
        return (problem.statement for problem in protected)
    if isinstance(protected, str):
        raise ConfigError("protected texts are a list, not one text")
    return protected
