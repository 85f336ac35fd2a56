"""Tools, in miniature: does an agent learn by rewards to call a calculator where its head does not do?"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Final

from mars_env.agents import RoleAgent
from mars_env.envs import Game, GroupedSettings, solve
from mars_env.grading import grader_for
from mars_env.miniature.model import build_model, build_tokenizer
from mars_env.miniature.protocol import END, PAD
from mars_env.models import HFModel
from mars_env.problems import ProblemSet
from mars_env.seeds import derive_seed
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.local import LocalTrainer
from mars_env.trainers.metrics import StepMetrics
from mars_env.trainers.policy import Policy
from mars_env.trainers.recipes import RunSettings
from mars_env.types import Completion, Model, Observation, Problem, Sampling, Tree
from studies.common.claims import Claim
from studies.common.episodes import copied, learned, mean, played_often
from studies.common.ledger import Frozen
from studies.common.study import Result, Run, Study, arm_by_arm

CALL, CALLED = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "', '"}}\n</tool_call>'
RESULT, GO_ON = "\n\nUser: <tool_response>\n", "\n</tool_response>\n\nAssistant:"
BOX, CLOSE = "\\boxed{", "}"
PIECES: Final = (*"0123456789+*=", CALL, CALLED, RESULT, GO_ON, BOX, CLOSE)
PATTERN: Final = "|".join(map(re.escape, sorted(PIECES, key=len, reverse=True)))
NAME: Final = "reckoner"


class Recipe(Frozen):
    """Every number of the study."""

    demonstrations: int = 600
    """Updates of the warm start, 64 texts each."""
    called: float = 0.1
    """Share of the demonstrations that call; the others answer at once, hard problems by a guess."""
    steps: int = 60
    problems: int = 16
    rate: float = 1e-3
    cost: float = 0.2
    """What a call costs in the arm that pays for calls."""
    tested: int = 400


@dataclass(frozen=True, slots=True)
class Arm:
    """Whether there is a calculator, whether the agent is trained, and whether calls cost."""

    tools: bool
    trained: bool = True
    costs: bool = False


ARMS: Final[Mapping[str, Arm]] = {
    "warm start, no calculator": Arm(tools=False, trained=False),
    "warm start": Arm(tools=True, trained=False),
    "no calculator": Arm(tools=False),
    "calculator": Arm(tools=True),
    "calculator, calls cost": Arm(tools=True, costs=True),
}
HARD, EASY, CALLS_HARD, CALLS_EASY = "hard", "easy", "calls_hard", "calls_easy"
COLUMNS: Final = {
    HARD: "products solved",
    EASY: "sums solved",
    CALLS_HARD: "products with a call",
    CALLS_EASY: "sums with a call",
}
CLAIMS: Final = (
    Claim("trained with a calculator, more products are solved than without",
        "calculator", HARD, "no calculator"),
    Claim("training raises the products solved with a calculator", "calculator", HARD, "warm start"),
    Claim("training raises the calls on products", "calculator", CALLS_HARD, "warm start"),
    Claim("where calls cost, products have more of them than sums",
        "calculator, calls cost", CALLS_HARD, "calculator, calls cost", CALLS_EASY),
    Claim("where calls cost, sums have fewer of them", "calculator", CALLS_EASY, "calculator, calls cost"),
)  # fmt: skip


def calculator(expression: str) -> str:
    """Compute a sum or a product of two integers, such as 12*34."""
    found = re.fullmatch(r"([0-9]{1,3})([+*])([0-9]{1,3})", expression)
    if found is None:
        return "?"
    a, b = int(found[1]), int(found[3])
    return str(a + b if found[2] == "+" else a * b)


def drawn(rng: random.Random) -> Iterator[Problem]:
    """Problems without an end: sums of two digits, products of two numbers with three digits, in turn."""
    number = 0
    while True:
        easy = f"{rng.randrange(10)}+{rng.randrange(10)}"
        hard = f"{rng.randrange(100, 1000)}*{rng.randrange(100, 1000)}"
        for kind, expression in ((EASY, easy), (HARD, hard)):
            yield Problem(f"{kind}/{number}", expression, calculator(expression), metadata={"level": kind})
        number += 1


def problems(seed: int, split: str, count: int) -> ProblemSet:
    """The problems of a seed for training or for the test."""
    rng = random.Random(derive_seed(seed, "calculator", split))
    return ProblemSet(f"calculator-{split}", list(islice(drawn(rng), count)), revision=f"seed {seed}")


def reckoner(model: Model, tools: bool) -> RoleAgent:
    """The agent; without tools its calls end its turn."""
    given = [calculator] if tools else []
    sampling = Sampling(max_tokens=24)
    return RoleAgent(model, sampling=sampling, prompt=read, thinking=None, tools=given, max_calls=1)


def read(observation: Observation) -> str:
    """What the model reads."""
    return f"{observation['problem']}="


@cache
def warm_started(seed: int, updates: int, called: float) -> HFModel:
    """A model that knows both ways to answer, and seldom calls."""
    vocabulary = (PAD, END, *PIECES)
    tokenizer = build_tokenizer(vocabulary, (PAD, END), PATTERN)
    model = HFModel((build_model(seed, len(vocabulary)), tokenizer), device="cpu", name=NAME)
    config = TrainConfig(learning_rate=3e-3, betas=(0.9, 0.98), warmup_updates=20)
    trainer = LocalTrainer({NAME: Policy(model.module, tokenizer)}, config)
    rng = random.Random(derive_seed(seed, "calculator", "demonstrations"))
    source = drawn(rng)
    for _ in range(updates):
        shown = [
            each for problem in islice(source, 64) for each in demonstration(model, problem, called, rng)
        ]
        trainer.imitate({NAME: shown})
    model.refresh(version=0)
    return model


def demonstration(
    model: HFModel, problem: Problem, called: float, rng: random.Random
) -> Sequence[Completion]:
    """An answer at once, or a call and the answer after its result."""
    question, right = f"{problem.statement}=", str(problem.reference)
    if rng.random() >= called:
        guess = right if len(right) < 3 else str(rng.randrange(10 ** (len(right) - 1), 10 ** len(right)))
        return [model.written(question, f"{BOX}{guess}{CLOSE}")]
    call = model.written(question, f"{CALL}{problem.statement}{CALLED}")
    result = model.tokenizer.encode(f"{RESULT}{right}{GO_ON}", add_special_tokens=False)
    follow = (*call.prompt_ids, *call.token_ids, *result)
    return [call, model.written(follow, f"{BOX}{right}{CLOSE}")]


@arm_by_arm
async def play(name: str, run: Run) -> Result:
    """Train one arm of a seed and test it."""
    arm, recipe, seed = ARMS[name], run.recipe, run.seed
    model = copied(warm_started(seed, recipe.demonstrations, recipe.called))
    game, history = Game(solve(), grader_for("math")), list[StepMetrics]()
    if arm.trained:
        settings = RunSettings(
            seed=seed,
            steps=recipe.steps,
            problems_per_step=recipe.problems,
            rollouts=GroupedSettings(group=8, branches=1),
            train=TrainConfig(
                learning_rate=recipe.rate,
                betas=(0.9, 0.98),
                advantage="mean_centred",  # a cost counts as much as it is, also where nothing else differs
                call_cost=recipe.cost if arm.costs else 0.0,
            ),
        )
        given = problems(seed, "train", recipe.steps * recipe.problems)
        history = await learned(model, game, given, settings, lambda _, own: reckoner(own, arm.tools))
    agents = {"solver_0": reckoner(model, arm.tools)}
    trees = await played_often(game, agents, problems(seed, "test", recipe.tested), 1, seed)
    return Result(figures(trees), {"rewards": [round(step.roles["solver"]["reward"], 3) for step in history]})


def figures(trees: Sequence[Tree]) -> dict[str, float | None]:
    """Shares of products and of sums that are solved, and that have a call."""
    found: dict[str, float | None] = {}
    for kind, calls in ((HARD, CALLS_HARD), (EASY, CALLS_EASY)):
        turns = [tree.turns[0] for tree in trees if tree.problem.metadata["level"] == kind]
        found[kind] = mean([turn.grade.score or 0.0 for turn in turns if turn.grade])
        found[calls] = mean([float(bool(turn.action.calls)) for turn in turns])
    return found


STUDY = Study(
    name="tools",
    version="87ad34d5e98b",
    task="a calculator",
    starts="1 for each seed",
    arms=tuple(ARMS),
    recipe=Recipe(),
    quick=Recipe(demonstrations=20, steps=2, problems=4, tested=16),
    play=play,
    claims=CLAIMS,
    columns=COLUMNS,
)
