"""Arithmetic problems tagged with their operations, on which PromptCoT 2.0 runs on a CPU in seconds.

A problem is a chain that is worked out from left to right modulo 5 (``3+1*2`` is 3). Its concepts are its
operations in a fixed order, and its result. A full rationale lists the values between them (``3+4*3``).
A solver reads ``3+1*2?`` and writes the values, the last one boxed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mars_env.agents.roles import RoleAgent
from mars_env.methods.promptcot.designs import Design
from mars_env.miniature.model import ModelSize, build_model, build_tokenizer
from mars_env.miniature.protocol import END, PAD
from mars_env.models.hf import HFModel
from mars_env.seeds import derive_seed
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.local import LocalTrainer
from mars_env.trainers.policy import Policy
from mars_env.types import Action, Model, Observation, Problem, Sampling

MODULUS: Final = 5
DIGITS: Final = "01234"
OPERATIONS: Final = "+-*"
OPERANDS: Final = {"+": "12", "-": "12", "*": "23"}
"""What may stand after each operation."""
BOX, CLOSE = "\\boxed{", "}"
VOCABULARY: Final = (PAD, END, *DIGITS, *OPERATIONS, *"=>;/_?", BOX, CLOSE)
PATTERN: Final = r"\\boxed\{|[0-4+*=>;/_?}-]"
SHAPE: Final = ModelSize(hidden=48, feed_forward=96, layers=2)
LONGEST: Final = 5
"""Most operations of a problem."""
RATIONALES: Final = Sampling(temperature=1.0, max_tokens=2 * LONGEST + 2)
DESIGNS: Final = Sampling(temperature=1.0, max_tokens=4 * LONGEST + 4)
SOLUTIONS: Final = Sampling(temperature=1.0, max_tokens=LONGEST + 4)


def values(problem: str) -> list[int] | None:
    """The value after each step of a problem; None if it is none."""
    digits, signs = problem[0::2], problem[1::2]
    if not (3 <= len(problem) <= 2 * LONGEST + 1 and len(problem) % 2):
        return None
    if digits[0] not in DIGITS or not set(signs) <= set(OPERATIONS):
        return None
    if any(digit not in OPERANDS[sign] for sign, digit in zip(signs, digits[1:], strict=True)):
        return None
    found = [int(digits[0])]
    for sign, digit in zip(signs, digits[1:], strict=True):
        now, operand = found[-1], int(digit)
        found.append({"+": now + operand, "-": now - operand, "*": now * operand}[sign] % MODULUS)
    return found


def concepts_of(problem: str) -> tuple[str, ...]:
    """Operations in a fixed order, and the result."""
    found = values(problem)
    assert found is not None
    return (*sorted(problem[1::2], key=OPERATIONS.index), f"={found[-1]}")


def draw(rng: random.Random, length: int) -> str:
    """A random problem with so many operations."""
    signs = [rng.choice(OPERATIONS) for _ in range(length)]
    return rng.choice(DIGITS) + "".join(sign + rng.choice(OPERANDS[sign]) for sign in signs)


def full_rationale(problem: str) -> str:
    """The operations with the values between them."""
    found = values(problem)
    assert found is not None
    text = [str(found[0])]
    for sign, value in zip(problem[1::2], found[1:], strict=True):
        text += [sign, str(value)]
    return "".join(text)


def written_rationale(problem: str, rng: random.Random) -> str:
    """A rationale by one of the four writers of the cold start."""
    full, writer = full_rationale(problem), rng.randrange(4)
    if writer == 0:
        return full
    if writer == 1:
        return "".join("_" if c.isdigit() else c for c in full)
    if writer == 2:
        return "".join(rng.choice(DIGITS) if c.isdigit() and rng.random() < 0.4 else c for c in full)
    return full[::-1]


def designs(seed: int, number: int, shares: Sequence[float] = (1, 2, 2)) -> list[Design]:
    """Different problems with written rationales."""
    rng = random.Random(derive_seed(seed, "designs"))
    found: dict[str, Design] = {}
    while len(found) < number:
        [length] = rng.choices(range(LONGEST - 2, LONGEST + 1), shares)
        problem = draw(rng, length)
        found.setdefault(problem, Design(concepts_of(problem), problem, written_rationale(problem, rng)))
    return list(found.values())


class GrammarWriting:
    """The writing of the language. Without rationales the problem model writes ``_`` in their place."""

    def from_concepts(self, concepts: Sequence[str]) -> str:
        """Concepts, then ``>``."""
        return "".join(concepts) + ">"

    def from_problem(self, concepts: Sequence[str], problem: str) -> str:
        """Concepts, problem, then ``>``."""
        return f"{''.join(concepts)}/{problem}>"

    def parts(self, design: Design) -> tuple[str, str]:
        """The rationale, then the problem."""
        return design.rationale + ";", design.problem

    def read(self, text: str) -> tuple[str, str] | None:
        """Both, if the problem is one of the language."""
        rationale, found, problem = text.partition(";")
        return (rationale, problem) if rationale and found and values(problem) is not None else None


def bare(design: Design) -> Design:
    """The design without a rationale."""
    return replace(design, rationale="_")


def follows(design: Design) -> bool:
    """Whether a problem has the operations and the result that were asked for."""
    return concepts_of(design.problem) == design.concepts


def as_problem(problem: str, id: str) -> Problem:
    """A problem with its true reference."""
    found = values(problem)
    assert found is not None
    return Problem(id, problem, str(found[-1]), metadata={"level": len(found) - 1})


class _Solver(RoleAgent):
    """Its text shows the box on a line of its own: a box after a digit would read as a product."""

    async def act(self, observation: Observation, n: int, seed: int) -> list[Action]:
        actions = await super().act(observation, n, seed)
        return [replace(each, text=each.text.replace(BOX, f"\n{BOX}")) for each in actions]


def solver(model: Model) -> RoleAgent:
    """The agent that solves problems of the language."""
    return _Solver(model, sampling=SOLUTIONS, prompt=lambda seen: f"{seen['problem']}?", thinking=None)


def new_model(name: str, seed: int) -> HFModel:
    """A new model of the language."""
    tokenizer = build_tokenizer(VOCABULARY, (PAD, END), PATTERN)
    return HFModel((build_model(seed, len(VOCABULARY), SHAPE), tokenizer), device="cpu", name=name)


def taught_solver(*, steps: int, seed: int = 0, slips: float = 0.0, name: str = "solver") -> HFModel:
    """A solver that has imitated right solutions."""
    model = new_model(name, seed)
    config = TrainConfig(learning_rate=3e-3, betas=(0.9, 0.98), warmup_updates=20, shared_prefixes=False)
    trainer = LocalTrainer({name: Policy(model.module, model.tokenizer)}, config)
    rng = random.Random(derive_seed(seed, "solutions"))
    for _ in range(steps):
        drawn = [draw(rng, rng.randint(LONGEST - 2, LONGEST)) for _ in range(64)]
        trainer.imitate({name: [model.written(f"{x}?", _solution(x, slips, rng)) for x in drawn]})
    model.refresh(version=0)
    return model


def _solution(problem: str, slips: float, rng: random.Random) -> str:
    shown, rest = "", problem
    while len(rest) > 1:
        found = values(rest[:3])
        assert found is not None
        value = rng.randrange(MODULUS) if rng.random() < slips else found[-1]
        shown, rest = shown + str(value), str(value) + rest[3:]
    return f"{shown}{BOX}{shown[-1]}{CLOSE}"
