"""A real language model with Python: SmolLM2-135M-Instruct on word problems, taught and untaught."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch
from scipy.stats import binomtest

from mars_env.agents import Solver, Toolbox, python_tool
from mars_env.envs import Game, solve
from mars_env.grading import grader_for
from mars_env.models import HFModel
from mars_env.models.tiny import tiny_model
from mars_env.problems import ProblemSet
from mars_env.seeds import derive_seed
from mars_env.trainers import LocalTrainer, Policy, TrainConfig
from mars_env.types import Completion, Prompt, Sampling, Tree
from studies.common.episodes import copied, mean, played_often
from studies.common.ledger import Frozen, LedgerRow
from studies.common.study import Result, Run, Study, arm_by_arm
from studies.smollm2.study import real_model
from studies.smollm2.word_problems import WordProblem, distinct, problem_set, solution

BEFORE, BEFORE_TOOL, TAUGHT, TAUGHT_TOOL = "as it comes", "as it comes, Python", "taught", "taught, Python"
NAME, SYSTEM = "smollm2", "You solve problems."
PROMPT: Final = "{{ problem }}\nGive the answer in \\boxed{}."


class Recipe(Frozen):
    """Every number of the study."""

    real: bool = True
    steps: int = 10
    lessons: int = 10
    """Demonstrations an update, each shown once."""
    taught: TrainConfig = TrainConfig(
        learning_rate=2e-4, warmup_updates=3, betas=(0.9, 0.98), autocast=True, token_budget=1024
    )
    tested: int = 32
    tokens: int = 80


@dataclass(frozen=True, slots=True)
class Told:
    """Writes the given texts in their order, each as token ids of a model: how lessons are made."""

    model: HFModel
    texts: Sequence[str]

    @property
    def tokenizer(self) -> Any:
        """That of the model."""
        return self.model.tokenizer

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Completion]:
        """The next text; a prompt with a result of a tool is the second."""
        after = not isinstance(prompt[0], dict)
        return [self.model.written(prompt, self.texts[int(after)])] * n


def solver(model: Any, python: bool, tokens: int) -> Solver:
    """The agent, whose calls are fenced blocks of Python."""
    tools = Toolbox([python_tool()], max_calls=2, calls="fenced") if python else ()
    sampling = Sampling(temperature=0, max_tokens=tokens)
    return Solver(model, policy=NAME, system=SYSTEM, prompt=PROMPT, sampling=sampling, tools=tools)


def program(problem: WordProblem) -> str:
    """A right program, such as ``it = 3*4``, ``it = 15+it``, ``print(it)``."""
    lines = [
        "it = " + re.sub(r"\b[a-e]\b", lambda name: str(problem.numbers[name[0]]), rule)
        for rule in problem.plan
    ]
    return "```python\n" + "\n".join([*lines, "print(it)"]) + "\n```"


async def lesson(model: HFModel, problem: WordProblem, python: bool) -> Sequence[Completion]:
    """A right turn: its calls are run, as those of a model are."""
    worked = solution(problem.worked())
    texts = [program(problem), f"\\boxed{{{problem.answer}}}"] if python else [worked]
    [action] = await solver(Told(model, texts), python, 400).act({"problem": problem.text}, 1, 0)
    return action.completions


@cache
def start(real: bool) -> HFModel:
    """The model as it comes."""
    return real_model() if real else tiny_model()


def shown_problems(run: Run) -> list[WordProblem]:
    """Those of the lessons."""
    return distinct(random.Random(derive_seed(run.seed, "lessons")), run.recipe.steps * run.recipe.lessons)


async def teach(model: HFModel, run: Run, python: bool) -> list[float]:
    """Show the lessons, and return the loss of each update."""
    recipe = run.recipe
    config = recipe.taught.model_copy(update={"seed": run.seed})
    trainer = LocalTrainer({NAME: Policy(model.module, model.tokenizer)}, config)
    shown = shown_problems(run)
    losses = []
    for first in range(0, len(shown), recipe.lessons):
        texts = [await lesson(model, one, python) for one in shown[first : first + recipe.lessons]]
        metrics = trainer.imitate({NAME: [text for each in texts for text in each]})
        losses.append(round(metrics.policies[NAME]["nll"], 3))
    return losses


def held_out(run: Run) -> ProblemSet:
    """Problems that are in no lesson."""
    shown = {one.text for one in shown_problems(run)}
    return problem_set("held-out", run.seed, run.recipe.tested, shown)


@arm_by_arm
async def play(arm: str, run: Run) -> Result:
    """One arm: taught or not, with Python or without."""
    model, python, losses = copied(start(run.recipe.real), NAME), "Python" in arm, list[float]()
    if arm in (TAUGHT, TAUGHT_TOOL):
        losses = await teach(model, run, python)
    model.module.to(torch.bfloat16)
    game, agents = Game(solve(), grader_for("math")), {"solver_0": solver(model, python, run.recipe.tokens)}
    trees = await played_often(game, agents, held_out(run), 1, run.seed)
    turns = [tree.turns[0] for tree in trees]
    figures = {
        "solved": mean([turn.grade.score or 0.0 for turn in turns if turn.grade]),
        "called": mean([float(bool(turn.action.calls)) for turn in turns]),
        "ran": mean([float(any(call.outcome == "ok" for call in turn.action.calls)) for turn in turns]),
        "tokens": mean([float(sum(c.sampled_tokens for c in turn.action.completions)) for turn in turns]),
    }
    return Result(figures, {"losses": losses, "episodes": [episode(tree) for tree in trees[:4]]})


def episode(tree: Tree) -> str:
    """A turn as it was written, with what the calls gave."""
    [turn] = tree.turns
    lines = [f"PROBLEM ({tree.problem.reference}): {tree.problem.statement}"]
    for number, completion in enumerate(turn.action.completions):
        lines += ["", completion.text]
        lines += [
            f"[{call.outcome}] {call.result}" for call in turn.action.calls if call.completion == number
        ]
    verdict = turn.grade.verdict.name.lower() if turn.grade else "not graded"
    return "\n".join([*lines, "", f"graded {verdict}"])


def share(solved: float) -> str:
    """A share of the problems, with its 95% interval."""
    tested = STUDY.recipe.tested
    ends = binomtest(round(solved * tested), tested).proportion_ci(method="wilson")
    return f"{solved:.1%} [{ends.low:.1%}, {ends.high:.1%}]"


def shown(rows: Sequence[LedgerRow]) -> dict[str, Any]:
    """The shares of solved problems, by arm."""
    return {"solved": {row.arm: share(row.figures["solved"]) for row in rows}}


STUDY = Study(
    name="tools_smollm2",
    version="e4f52dc53323",
    task="a real language model with Python",
    starts="1",
    arms=(BEFORE, BEFORE_TOOL, TAUGHT, TAUGHT_TOOL),
    recipe=Recipe(),
    quick=Recipe(real=False, steps=1, lessons=2, tested=2, tokens=8),
    play=play,
    shown=shown,
    claims=(),
    seeds="0",
)
