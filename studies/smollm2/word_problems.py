"""Generated English word problems of one or two small steps, and what a team may be shown about them.

    python -m studies.smollm2.word_problems  # problems with a solution, two reports, a correction

A made problem knows its steps, so right solutions, wrong ones, honest reports and corrections follow from it.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mars_env.problems import ProblemSet
from mars_env.seeds import derive_seed
from mars_env.types import Problem

NAMES: Final = (
    "Ana", "Ben", "Carla", "David", "Emma", "Finn", "Grace", "Hugo", "Ivy", "Jack", "Lena", "Sam"
)  # fmt: skip
THINGS: Final = (
    "apples", "books", "cards", "coins", "eggs", "flowers", "marbles", "pencils", "shells", "stamps"
)  # fmt: skip
TEMPLATES: Final = (
    # the text with name N and things T, and the steps: numbers by name, "it" is the result before
    ("{N} has {a} {T} and buys {b} more. How many {T} does {N} have now?", "a+b"),
    ("{N} has {a} {T} and gives {b} to a friend. How many {T} are left?", "a-b"),
    ("There are {c} boxes with {d} {T} in each. How many {T} are there?", "c*d"),
    ("{N} has {a} {T} and buys {c} bags with {d} {T} each. How many {T} does {N} have now?",
     "c*d a+it"),
    ("{N} fills {c} bags with {d} {T} each and then loses {e}. How many {T} are left?", "c*d it-e"),
    ("{N} has {a} {T}, gives {b} to a friend and then finds {c}. How many {T} does {N} have now?",
     "a-b it+c"),
    ("{N} has {a} {T}, buys {b} and then gives {c} away. How many {T} are left?", "a+b it-c"),
    ("{c} children have {d} red and {e} blue {T} each. How many {T} do they have in all?", "d+e c*it"),
    ("A shop has {a} {T}. It sells {c} bags with {d} {T} each. How many {T} are left?", "c*d a-it"),
)  # fmt: skip
LARGEST: Final = 99
"""Of every result."""


def sign_of(rule: str) -> str:
    """The sign of a step such as ``a+it``."""
    return next(sign for sign in "+-*" if sign in rule)


@dataclass(frozen=True, slots=True)
class Step:
    """One calculation, such as ``3*4=12``."""

    left: int
    sign: str
    right: int

    @property
    def result(self) -> int:
        """The right result."""
        results = {"+": self.left + self.right, "-": self.left - self.right, "*": self.left * self.right}
        return results[self.sign]


@dataclass(frozen=True, slots=True)
class WordProblem:
    """A problem in words; `plan` are its steps, in which ``it`` is the result of the step before."""

    text: str
    numbers: Mapping[str, int]
    plan: tuple[str, ...]

    def worked(self, slip: int = 0, at: int = -1) -> list[tuple[Step, int]]:
        """The steps with their results; the result of the step at a place is off by the slip."""
        found: list[tuple[Step, int]] = []
        known = dict(self.numbers)
        for place, rule in enumerate(self.plan):
            left, right = (known[name] for name in rule.split(sign_of(rule)))
            step = Step(left, sign_of(rule), right)
            known["it"] = step.result + (slip if place == at else 0)
            found.append((step, known["it"]))
        return found

    @property
    def answer(self) -> int:
        """The right one."""
        return self.worked()[-1][1]


def draw(rng: random.Random) -> WordProblem:
    """A problem whose results are all between 1 and `LARGEST`."""
    while True:
        text, plan = rng.choice(TEMPLATES)
        numbers = {"a": rng.randint(10, 60), "b": rng.randint(3, 40)}
        numbers |= {name: rng.randint(2, 9) for name in "cde"}
        words = {"N": rng.choice(NAMES), "T": rng.choice(THINGS)}
        made = WordProblem(text.format(**numbers, **words), numbers, tuple(plan.split()))
        if all(1 <= result <= LARGEST for _, result in made.worked()):
            return made


def shown(steps: list[tuple[Step, int]]) -> str:
    """Steps as they are written: ``3*4=12, 15+12=27``."""
    return ", ".join(f"{step.left}{step.sign}{step.right}={result}" for step, result in steps)


def solution(steps: list[tuple[Step, int]]) -> str:
    r"""A solution that ends in ``\boxed{}``."""
    return f"{shown(steps)}. \\boxed{{{steps[-1][1]}}}"


def wrong_steps(problem: WordProblem, rng: random.Random) -> list[tuple[Step, int]]:
    """Steps with one fault: a slip, another sign, another number, or the last step left out."""
    while True:
        kind = rng.choice(("slip", "slip", "sign", "number", "short"))
        place = rng.randrange(len(problem.plan))
        if kind == "slip":
            steps = problem.worked(slip=rng.choice((-10, -2, -1, 1, 2, 10)), at=place)
        elif kind == "number":
            name = rng.choice(sorted(problem.numbers))
            number = max(1, problem.numbers[name] + rng.choice((-3, -2, -1, 1, 2, 3)))
            steps = replace(problem, numbers={**problem.numbers, name: number}).worked()
        elif kind == "sign":
            plan, old = list(problem.plan), sign_of(problem.plan[place])
            plan[place] = plan[place].replace(old, rng.choice([sign for sign in "+-*" if sign != old]))
            steps = replace(problem, plan=tuple(plan)).worked()
        else:
            steps = problem.worked()[:-1]
        if steps and steps[-1][1] != problem.answer and all(0 <= result <= 200 for _, result in steps):
            return steps


def report(problem: WordProblem, answer: int) -> str:
    """An honest report on a solution with that answer, which ends in a verdict."""
    right = problem.worked()
    if answer == problem.answer:
        return f"{shown(right)}, the same.\nCorrectness: Correct"
    return f"{shown(right)}, not {answer}.\nCorrectness: Wrong"


def mistaken_report(problem: WordProblem, rng: random.Random) -> str:
    """A report that calls a right solution wrong."""
    return f"{shown(wrong_steps(problem, rng))}, not {problem.answer}.\nCorrectness: Wrong"


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one role is shown: what it sees, and what it should write."""

    role: str
    seen: Mapping[str, Any]
    text: str


def lesson(problem: WordProblem, role: str, rng: random.Random) -> Lesson:
    """A demonstration: a right solution, an honest report, or a correction.

    Half of the judged solutions are right. A quarter of the corrections follow a mistaken report on a right
    solution, and keep its answer.
    """
    right = solution(problem.worked())
    if role == "solver":
        return Lesson(role, {"problem": problem.text}, right)
    keeps = rng.random() < (0.5 if role == "verifier" else 0.25)
    given = problem.worked() if keeps else wrong_steps(problem, rng)
    seen = {"problem": problem.text, "solution": solution(given), "truncated": 0, "round": 0}
    answer = given[-1][1]
    if role == "verifier":
        return Lesson(role, seen, report(problem, answer))
    told = mistaken_report(problem, rng) if answer == problem.answer else report(problem, answer)
    return Lesson(role, {**seen, "report": told}, right)


def lessons(seed: int, number: int, mix: Mapping[str, float]) -> list[Lesson]:
    """So many demonstrations, each on a problem of its own; roles in about these shares."""
    rng = random.Random(derive_seed(seed, "lessons"))
    roles = rng.choices(list(mix), weights=list(mix.values()), k=number)
    return [lesson(problem, role, rng) for problem, role in zip(distinct(rng, number), roles, strict=True)]


def distinct(rng: random.Random, number: int, without: Collection[str] = ()) -> list[WordProblem]:
    """So many different problems, none of them with a text that is to be left out."""
    found: dict[str, WordProblem] = {}
    while len(found) < number:
        made = draw(rng)
        if made.text not in without:
            found.setdefault(made.text, made)
    return list(found.values())


def problem_set(name: str, seed: int, number: int, without: Collection[str] = ()) -> ProblemSet:
    """So many different problems of a seed, with their answers."""
    made = distinct(random.Random(derive_seed(seed, name)), number, without)
    rows = [
        Problem(f"{name}/{place}", one.text, str(one.answer), metadata={"steps": len(one.plan)})
        for place, one in enumerate(made)
    ]
    return ProblemSet(name, rows)


def main() -> None:
    """Print some problems, and what is shown about them."""
    rng = random.Random(0)
    for _ in range(3):
        problem = draw(rng)
        wrong = wrong_steps(problem, rng)
        print(f"{problem.text}\n  solution: {solution(problem.worked())}\n  a wrong one: {solution(wrong)}")
        reports = [report(problem, answer) for answer in (problem.answer, wrong[-1][1])]
        for told in (*reports, mistaken_report(problem, rng)):
            print("  report: " + told.replace("\n", " / "))


if __name__ == "__main__":
    main()
