"""Demonstrations for the warm start: what a Solver, a Verifier and a Corrector write, with chosen faults."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Final, Literal

from mars_env.miniature import protocol as p
from mars_env.problems.arithmetic import arithmetic_statement
from studies.common.ledger import Frozen

Role = Literal["solver", "verifier", "corrector"]
ROLES: Final[tuple[Role, ...]] = ("solver", "verifier", "corrector")


class Faults(Frozen):
    """Probabilities of faults in demonstrations, and the weight of a Verifier's marks.

    Attributes:
        shown: A step of the solution shown to a Verifier or a Corrector is wrong; one value is drawn.
        continued: The solution shown starts at a later letter, as a Corrector's does.
        wild: A wrong value in a shown solution is any number, rather than one digit off.
        glance: A Verifier accepts the solution, whatever it is, without checking a step.
        lazy: A Corrector copies the solution.
    """

    solver: float = 0.0
    verifier: float = 0.0
    corrector: float = 0.0
    shown: tuple[float, ...] = (0.0, 0.3, 0.6)
    continued: float = 0.3
    wild: float = 0.8
    glance: float = 0.0
    lazy: float = 0.0
    mark_weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A prompt, and the pieces to write after it with their weights, in the stream's order."""

    prompt: str
    completion: tuple[str, ...]
    weights: tuple[float, ...]


def draw_chain(rng: random.Random) -> p.Chain:
    """A chain as the problem set ``arithmetic`` draws them: 1 to 6 terms."""
    terms = tuple((rng.choice("+-"), rng.randrange(100)) for _ in range(rng.randint(1, p.MAX_TERMS)))
    return p.Chain(rng.randrange(p.MODULUS), terms)


def tell(chain: p.Chain) -> str:
    """The statement of a chain, as the problem set ``arithmetic`` writes it."""
    signs, sizes = zip(*chain.terms, strict=True)
    return arithmetic_statement(chain.start, sizes, [1 if sign == "+" else -1 for sign in signs])


def slip(value: int, rng: random.Random) -> int:
    """A value with one digit off by one."""
    unit = rng.choice((1, 10, 100))
    digit = value // unit % 10
    return value + ((digit + rng.choice((1, 9))) % 10 - digit) * unit


def write_solution(
    chain: p.Chain,
    rng: random.Random,
    wrong: float = 0.0,
    wild: float = 0.0,
    start: int = 0,
    value: int | None = None,
) -> tuple[str, ...]:
    """A solution, cut off at the length limit."""
    value = chain.start if value is None else value
    lines = [f"{p.LETTERS[start]}: = {value:03d}\n"]
    for letter, (sign, size) in list(zip(p.LETTERS[1:], chain.terms, strict=False))[start:]:
        value = p.step(value, sign, size)
        if rng.random() < wrong:
            value = rng.randrange(p.MODULUS) if rng.random() < wild else slip(value, rng)
        lines.append(f"{letter}: {sign} {size:02d} = {value:03d}\n")
    return tuple([*p.pieces("".join(lines) + f"\\boxed{{{value:03d}}}"), p.END][: p.SOLUTION_TOKENS])


_LINE: Final = re.compile(r"([a-g]):(?: ([+-]) ([0-9]{2}))? = ([0-9]{3})\n")
_BOX: Final = re.compile(r"\\boxed\{([0-9]{3})\}")


@dataclass(frozen=True, slots=True)
class Review:
    """What a careful Verifier finds: the last letter found right, and the value there, to continue from."""

    report: str
    place: int
    value: int
    passed: bool


def review(chain: p.Chain, solution: str, rng: random.Random, wrong: float = 0.0) -> Review:
    """Solve every step of a solution again, copy the claim beside it, stop at the first difference."""
    report, place, value = p.CHECK, None, 0
    first, last = 0, len(chain.terms)
    for number, line in enumerate(_LINE.finditer(solution)):
        letter, claim = p.LETTERS.index(line[1]), int(line[4])
        if number == 0:
            first = letter
            mine, head = (chain.start if letter == 0 else claim), f"{line[1]}:"
        else:
            if letter != first + number or letter > last:
                break
            sign, size = chain.terms[letter - 1]
            mine, head = p.step(value, sign, size), f"{line[1]}: {sign} {size:02d}"
            if rng.random() < wrong:
                mine = slip(mine, rng)
        report += f"{head} = {mine:03d} | {claim:03d}"
        if mine != claim:
            report += p.NO
            break
        report += p.OK
        place, value = letter, mine
    else:
        box = _BOX.search(solution)
        if place == last and box is not None and int(box[1]) == value:
            return Review(report + p.RIGHT, last, value, passed=True)
    if place is None:
        place, value = 0, chain.start
    return Review(f"{report}{p.FROM}{p.LETTERS[place]}:{p.WRONG}", place, value, passed=False)


def demonstrate(role: Role, rng: random.Random, faults: Faults, alone: bool = False) -> Demonstration:
    """One demonstration of a role; a Corrector that is `alone` reads no report, and right solutions too."""
    chain = draw_chain(rng)
    statement = tell(chain)
    if role == "solver":
        pieces = write_solution(chain, rng, faults.solver)
        return Demonstration(p.solver_prompt(statement), pieces, (1.0,) * len(pieces))
    shown = shown_solution(chain, rng, faults)
    solution = p.flip("".join(shown).removesuffix(p.END))
    if role == "verifier":
        glances = rng.random() < faults.glance
        report = p.RIGHT if glances else review(chain, solution, rng, faults.verifier).report
        pieces = (*p.pieces(report), p.END)[: p.REPORT_TOKENS]
        # However rare checks are, the skill of checking must stay: only their first token is learned as rare.
        kept = 1.0 / (1.0 - faults.glance) if not glances else 1.0
        weights = tuple(
            (kept if i else 1.0) * (faults.mark_weight if piece in _MARKS else 1.0)
            for i, piece in enumerate(pieces)
        )
        return Demonstration(p.verifier_prompt(statement, solution), pieces, weights)
    found = review(chain, solution, rng)
    if found.passed and not alone:
        return demonstrate(role, rng, faults)
    pieces = (
        shown
        if rng.random() < faults.lazy
        else write_solution(chain, rng, faults.corrector, start=found.place, value=found.value)
    )
    prompt = p.corrector_prompt(statement, solution, "" if alone else found.report)
    return Demonstration(prompt, pieces, (1.0,) * len(pieces))


def shown_solution(chain: p.Chain, rng: random.Random, faults: Faults) -> tuple[str, ...]:
    """A solution to read, from the beginning or, as a Corrector writes it, from a later letter."""
    start = rng.randint(1, len(chain.terms)) - 1 if rng.random() < faults.continued else 0
    return write_solution(chain, rng, rng.choice(faults.shown), faults.wild, start, chain.values[start])


_MARKS: Final = frozenset((p.OK, p.NO, p.RIGHT, p.WRONG))
