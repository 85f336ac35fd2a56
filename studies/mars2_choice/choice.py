"""MARS2's final choice in miniature, with a reward model that learns from the search's own trees.

Few outputs of sixteen are shown, so many programs pass the public tests, and the choice decides.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat, PositiveInt
from transformers import Qwen3ForSequenceClassification

from mars_env.agents.reward_model import HFRewardModel
from mars_env.envs.selection import First, Highest, Selection, Vote, candidates
from mars_env.evaluation.trees import is_right
from mars_env.miniature.model import updates
from mars_env.models.hf import HFModel
from mars_env.seeds import derive_seed
from mars_env.types import Tree
from studies.common.ledger import Frozen
from studies.mars2.experiment import (
    ARMS,
    Mars2Arm,
    Shortest,
    TrainedTeam,
    chosen_by,
    diversity,
    right_diversity,
    search,
    search_figures,
    training_problems,
    warm_model,
    within,
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
        warm_start=WarmStart(shown=2, most=2, updates=300),
        level=(1, 2),
        train_score="fraction",
    )
    """As in the first study but for what is named: two outputs are shown instead of six, chains have at most
    two operations, the warm start is longer, and the reward in training is the share of tests that pass."""

    reward_model: RewardRecipe = RewardRecipe()


CHOICE_RECIPE: Final = ChoiceRecipe()
"""The recipe of the reported rows."""

CHOICE_QUICK: Final = ChoiceRecipe(
    mars2=Mars2Recipe(
        warm_start=WarmStart(shown=2, most=2, updates=40, rows=64),
        level=(1, 2),
        train_score="fraction",
        steps=4,
        problems=16,
        tokens=48,
        cuts=(12, 24),
    ),
    reward_model=RewardRecipe(problems=16, updates=10),
)
"""A small version: it shows that everything runs, and nothing else."""

CHOICE_ARMS: Final = tuple(
    arm for arm in ARMS if arm.name in ("untrained", "single", "homogeneous", "heterogeneous", "equal pair")
)
"""One agent, before and after training; one model in two roles; two different models; two of one kind."""


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
        texts = [
            tokenizer.apply_chat_template(
                [
                    {"role": "user", "content": row.statement},
                    {"role": "assistant", "content": row.program},
                ],
                tokenize=False,
            )
            for row in rows
        ]
        encoded = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
        logits = module(**encoded).logits[:, 0]
        right = torch.tensor([float(row.right) for row in rows])
        F.binary_cross_entropy_with_logits(logits, right).backward()  # type: ignore[no-untyped-call]
    module.eval().save_pretrained(folder)
    return HFRewardModel(folder, device="cpu", batch=64)


async def own_reward_model(
    arm: Mars2Arm, trained: TrainedTeam, seed: int, folder: Path, recipe: ChoiceRecipe, cache: Path
) -> tuple[HFRewardModel, dict[str, float]]:
    """The reward model of a trained team, from searches of training problems, and what it learnt from."""
    problems = training_problems(seed, recipe.mars2)
    unseen = recipe.mars2.steps * recipe.mars2.problems_per_step
    chosen = [problems[unseen + i] for i in range(recipe.reward_model.problems)]
    programs = judged(await search(trained, recipe.mars2.searched(), seed, recipe.mars2, chosen))
    warm = warm_model(arm.models[0], seed, recipe.mars2, cache)
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


async def choice_figures(
    arm: Mars2Arm,
    trained: TrainedTeam,
    seed: int,
    folder: Path,
    recipe: ChoiceRecipe,
    cache: Path,
) -> dict[str, float]:
    """All figures of a trained team; all its searches spend the same tokens."""
    learned, figures = await own_reward_model(arm, trained, seed, folder, recipe, cache)
    choices: dict[str, Selection] = {
        "vote": Vote(by_text=True),
        "shortest": Highest(Shortest()),
        "learned": Highest(learned),
    }
    mars2 = recipe.mars2
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
