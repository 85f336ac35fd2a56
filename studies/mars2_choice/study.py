"""MARS2's final choice in miniature: a reward model that learns from the search's own trees.

Few outputs of sixteen are shown, so many programs pass the public tests, and the choice decides.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat, PositiveInt
from transformers import Qwen3ForSequenceClassification

from mars_env.agents.reward_model import HFRewardModel
from mars_env.envs.selection import First, Highest, candidates
from mars_env.evaluation.trees import is_right
from mars_env.models.hf import HFModel
from mars_env.seeds import derive_seed
from mars_env.types import Tree
from studies.common.claims import Claim
from studies.common.episodes import updates
from studies.common.ledger import Frozen, LedgerRow
from studies.common.study import Result, Run, Study, arm_by_arm
from studies.mars2.experiment import (
    ARMS,
    Mars2Arm,
    TrainedTeam,
    chosen_by,
    diversity,
    right_diversity,
    search,
    search_figures,
    train_team,
    training_problems,
    warm_model,
    within,
)
from studies.mars2.experiment import (
    CHOICES as RULES,
)
from studies.mars2.protocol import END, OLD
from studies.mars2.recipe import Mars2Recipe
from studies.mars2.warm_start import WarmStart

TEMPLATE: Final = (
    "{{ messages[0].content.split('with\\n')[-1].split(', f') | join('\\nf') }}\n"
    + OLD
    + "{% for line in messages[1].content.split('\\n') if line.strip()[:4] in ('u = ', 'v = ')"
    " and line.strip() != 'u = v = x' %}{{ line.strip() }}\n{% endfor %}" + END
)
"""What the reward model reads of a problem and a program: the examples and the statements, one token each."""


class RewardRecipe(Frozen):
    """How a reward model is trained, from trees of so many training problems."""

    problems: PositiveInt = 3000
    updates: PositiveInt = 400
    rows: PositiveInt = 64
    learning_rate: PositiveFloat = 3e-4
    weight_decay: PositiveFloat = 0.1


class ChoiceRecipe(Frozen):
    """The study's numbers: those of the teams and of the reward model."""

    mars2: Mars2Recipe = Mars2Recipe(
        warm_start=WarmStart(shown=2, most=2, updates=300), level=(1, 2), train_score="fraction"
    )
    """As in the first study but for what is named: two outputs are shown instead of six, chains have at most
    two operations, the warm start is longer, and the reward in training is the share of tests that pass."""

    reward_model: RewardRecipe = RewardRecipe()


RECIPE: Final = ChoiceRecipe()
"""The recipe of the reported rows."""

QUICK: Final = ChoiceRecipe(
    mars2=RECIPE.mars2.model_copy(
        update={
            "warm_start": WarmStart(shown=2, most=2, updates=40, rows=64),
            "steps": 1,
            "problems_per_step": 4,
            "problems": 6,
            "tokens": 24,
            "cuts": (6, 12),
        }
    ),
    reward_model=RewardRecipe(problems=16, updates=3, rows=8),
)
"""A small version: it shows that everything runs, and nothing else."""

ARM: Final = {arm.name: arm for arm in ARMS if arm.name not in ("untrained pair", "homogeneous x2")}
"""One agent, before and after training; one model in two roles; two different models; two of one kind."""
T_PLUS, FIRST, LEARNED = "t-plus_pass@1", "search_pass@1", "learned_pass@1"
CHOICES = {
    FIRST: "the first",
    "vote_pass@1": "a vote",
    "shortest_pass@1": "the shortest",
    LEARNED: "learned reward model",
    "search_pass@n": "Pass@N: a perfect choice",
}
TEAMS = {
    "pass@1": "Pass@1 of the agents",
    "best-of-n_pass@1": "best-of-n",
    FIRST: "AB-MCTS",
    T_PLUS: "T+ with the learned model",
    "t-plus_pass@n": "T+, Pass@N",
    "distinct_right": "different right programs for 100 problems",
}
CLAIMS = (
    Claim("the bar: T+ with a learned reward model above the same search that takes its first candidate",
        "heterogeneous", T_PLUS, "heterogeneous", "depth_pass@1"),
    Claim("T+ with it: two different models above one in two roles", "heterogeneous", T_PLUS, "homogeneous"),
    Claim("T+ with it: two different models above two equal ones", "heterogeneous", T_PLUS, "equal pair"),
    Claim("T+ with it: one model in two roles above one agent", "homogeneous", T_PLUS, "single"),
    Claim("... two equal models above one agent", "equal pair", T_PLUS, "single"),
    Claim("one agent: a learned choice above the first candidate", "single", LEARNED, "single", FIRST),
    Claim("one agent: a learned choice above a vote", "single", LEARNED, "single", "vote_pass@1"),
    Claim("one agent: a learned choice above the shortest", "single", LEARNED, "single", "shortest_pass@1"),
    Claim("two different models: a learned choice above a vote",
        "heterogeneous", LEARNED, "heterogeneous", "vote_pass@1"),
    Claim("different right programs: two different models above one in two roles",
        "heterogeneous", "distinct_right", "homogeneous"),
    Claim("RL adds to T+ of one agent", "single", T_PLUS, "untrained"),
)  # fmt: skip
OTHER_CLAIMS = tuple(
    Claim(f"{name}: a learned choice above {CHOICES[other]}", name, LEARNED, name, other)
    for name in ARM
    for other in (FIRST, "vote_pass@1", "shortest_pass@1")
    if not any((claim.arm, claim.figure, claim.other_figure) == (name, LEARNED, other) for claim in CLAIMS)
)
"""What the plan compares beside `CLAIMS`: the same choice, in the other teams."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A program that passes the public tests, and whether it passes all."""

    statement: str
    program: str
    right: bool


def judged(trees: Sequence[Tree]) -> list[Judged]:
    """The different programs of each tree that pass its public tests."""
    return [
        Judged(tree.problem.statement, text, right)
        for tree in trees
        for text, right in _passing(tree).items()
    ]


def _passing(tree: Tree) -> dict[str, bool]:
    """Whether each different program that passes the public tests passes all."""
    return {t.text: bool(is_right(t)) for t in candidates(tree.turns) if t.search_score == 1.0}


def train_reward_model(
    warm: HFModel, programs: Sequence[Judged], seed: int, folder: Path, recipe: RewardRecipe
) -> HFRewardModel:
    """Teach a copy of a warm-started coder which programs that pass the public tests are right."""
    config = type(warm.module.config)(**{**warm.module.config.to_dict(), "id2label": {0: "right"}})
    module = Qwen3ForSequenceClassification(config)
    module.model.load_state_dict(warm.module.model.state_dict())
    with torch.no_grad():
        generator = torch.Generator().manual_seed(derive_seed(seed, "reward model") % 2**31)
        module.score.weight.normal_(0.0, 0.02, generator=generator)
    warm.tokenizer.save_pretrained(folder)
    tokenizer = type(warm.tokenizer).from_pretrained(folder, chat_template=TEMPLATE)
    tokenizer.save_pretrained(folder)
    rng = random.Random(derive_seed(seed, "reward model", "order"))
    module.train()
    steps = recipe.updates if programs else 0
    for _ in updates(
        module, steps, recipe.learning_rate, warmup=recipe.updates / 8, weight_decay=recipe.weight_decay
    ):
        rows = rng.choices(programs, k=recipe.rows)
        chats = [
            [{"role": "user", "content": row.statement}, {"role": "assistant", "content": row.program}]
            for row in rows
        ]
        texts = tokenizer.apply_chat_template(chats, tokenize=False)
        encoded = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
        logits = module(**encoded).logits[:, 0]
        right = torch.tensor([float(row.right) for row in rows])
        F.binary_cross_entropy_with_logits(logits, right).backward()  # type: ignore[no-untyped-call]
    module.eval().save_pretrained(folder)
    return HFRewardModel(folder, device="cpu", batch=64)


async def own_reward_model(
    arm: Mars2Arm, trained: TrainedTeam, run: Run, folder: Path
) -> tuple[HFRewardModel, dict[str, float]]:
    """The reward model of a trained team, from searches of training problems, and what it learnt from."""
    seed, recipe = run.seed, run.recipe
    problems = training_problems(seed, recipe.mars2)
    unseen = recipe.mars2.steps * recipe.mars2.problems_per_step
    chosen = [problems[unseen + i] for i in range(recipe.reward_model.problems)]
    programs = judged(await search(trained, recipe.mars2.searched(), seed, recipe.mars2, chosen))
    warm = warm_model(arm.models[0], seed, recipe.mars2, run.cache)
    model = train_reward_model(warm, programs, seed, folder, recipe.reward_model)
    right = sum(each.right for each in programs)
    return model, {"taught": float(len(programs)), "taught_right": right / max(1, len(programs))}


def left_to_choose(trees: Sequence[Tree]) -> dict[str, float]:
    """Shares of searches with a passing program, with several, with a right and a wrong one."""
    found = []
    for tree in trees:
        passing = _passing(tree)
        found.append((len(passing) > 0, len(passing) > 1, len(set(passing.values())) == 2))
    names = ("passed", "several", "open")
    return {name: sum(each[i] for each in found) / max(1, len(found)) for i, name in enumerate(names)}


async def choice_figures(arm: Mars2Arm, trained: TrainedTeam, run: Run, folder: Path) -> dict[str, float]:
    """All figures of a trained team; all its searches spend the same tokens."""
    seed, mars2 = run.seed, run.recipe.mars2
    learned, figures = await own_reward_model(arm, trained, run, folder)
    choices = {**RULES, "learned": Highest(learned)}
    fresh = await search(trained, mars2.searched("best-of-n"), seed, mars2)
    plain = await search(trained, mars2.searched(), seed, mars2)
    t_plus = await search(trained, mars2.t_plus(learned), seed, mars2)
    runs = {"best-of-n": fresh, "search": plain, "t-plus": t_plus, "depth": await chosen_by(First(), t_plus)}
    runs |= {name: await chosen_by(selection, plain) for name, selection in choices.items()}
    for tokens in mars2.cuts:
        stopped = within(plain, tokens)
        runs[f"search at {tokens}"] = await chosen_by(First(), stopped)
        runs[f"learned at {tokens}"] = await chosen_by(choices["learned"], stopped)
    for name, trees in runs.items():
        figures |= {f"{name}_{key}": value for key, value in search_figures(trees).items()}
    figures |= {f"search_{key}": value for key, value in left_to_choose(plain).items()}
    return figures | diversity(fresh, mars2.diversity_nodes) | right_diversity(fresh, mars2.diversity_nodes)


@arm_by_arm
async def play(name: str, run: Run) -> Result:
    """Train one arm of a seed, then its reward model, and evaluate both."""
    arm, began = ARM[name], time.process_time()
    trained = await train_team(arm, run.seed, run.recipe.mars2, run.cache)
    detail = {"training_cpu_seconds": round(time.process_time() - began, 1)}
    with tempfile.TemporaryDirectory() as folder:
        figures = await choice_figures(arm, trained, run, Path(folder))
    return Result(figures, detail)


def shown(_: Sequence[LedgerRow]) -> dict[str, Any]:
    """What the page shows beside the figures of the rows."""
    return {"teams": TEAMS, "choices": CHOICES, "claims": CLAIMS, "other_claims": OTHER_CLAIMS}


STUDY = Study(
    name="mars2_choice",
    version="75247012b1fc",
    task="MARS2's final choice",
    starts="1 for each seed and model",
    arms=tuple(ARM),
    recipe=RECIPE,
    quick=QUICK,
    play=play,
    shown=shown,
    claims=CLAIMS + OTHER_CLAIMS,
    columns=TEAMS | CHOICES,
)
