"""The recipe of the miniature of MARS2; the numbers were chosen on seeds from 100 up."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import PositiveInt

from mars_env.envs.tree_search import TreeSearchSettings, tree_search
from mars_env.trainers.config import TrainConfig, TreeCredit
from mars_env.types import RewardModel
from studies.common.ledger import Frozen
from studies.common.study import recorded_config
from studies.mars2.warm_start import WarmStart


class Mars2Recipe(Frozen):
    """How the miniature's models are warm-started, trained and evaluated."""

    warm_start: WarmStart = WarmStart()
    """Short, so that something is left to learn."""
    specialists: tuple[float, float] = (0.75, 0.25)
    """Leans of the two different models: to the first register (arithmetic), or to the second one (bits)."""
    level: tuple[int, int] = (1, 3)
    """Operations of each register in training and evaluation problems."""
    steps: PositiveInt = 200
    """Training steps; fixed beforehand."""
    problems_per_step: PositiveInt = 16
    """Trees of one step."""
    nodes: PositiveInt = 8
    """Nodes of a training tree for each model in it (the paper: 8): equally many samples for each model."""
    train_score: Literal["all", "fraction"] = "all"
    """Reward of a node in training: 1 if all tests pass (the paper's), or the share that does."""
    train: TrainConfig = recorded_config(
        advantage="group_normalised",
        ratio="sequence",
        aggregation="sequence-mean",
        clip_low=3e-4,
        clip_high=4e-4,
        tree_credit=TreeCredit(),
        learning_rate=4e-4,  # with 1e-3 models get worse
        warmup_updates=5,
    )
    """Tree-GRPO with GSPO's ratio, as in the paper; tree-shaped credit on, KL off. There is one update a
    step."""
    problems: PositiveInt = 250
    """Held-out problems of an evaluation."""
    tokens: PositiveInt = 96
    """Budget of every search at evaluation, whatever the algorithm: about 20 fresh programs."""
    diversity_nodes: PositiveInt = 10
    """Fresh programs of each problem from which diversity is computed."""
    cuts: tuple[PositiveInt, ...] = (12, 24, 48)
    """Smaller budgets, at which the same searches are measured as well."""
    wave: PositiveInt = 2
    """Expansions of a tree at the same time, at evaluation."""

    def searched(self, algorithm: str = "ab-mcts-a", **settings: Any) -> TreeSearchSettings:
        """A search at evaluation. It spends its tokens whether or not a node passes the public tests."""
        return self._budgeted("evaluation", algorithm=algorithm, early_stop=False, **settings)

    def t_plus(self, reward_model: RewardModel, **settings: Any) -> TreeSearchSettings:
        """MARS2-T+ by the preset that users run (``schedule="t-plus"``), with the other searches' budget."""
        return self._budgeted("t-plus", reward_model=reward_model, **settings)

    def _budgeted(self, schedule: str, **settings: Any) -> TreeSearchSettings:
        budget = {"nodes": 4 * self.tokens, "tokens": self.tokens, "wave": self.wave}
        usual = {"kind": "code", "score": "fraction", **budget}
        found: TreeSearchSettings = tree_search(schedule=schedule, **{**usual, **settings}).settings
        return found

    def trained(self, algorithm: str, models: int) -> TreeSearchSettings:
        """The search in training: half of a tree's nodes are chosen together, then the other half."""
        nodes = models * self.nodes
        return TreeSearchSettings(
            nodes=nodes, algorithm=algorithm, wave=nodes // 2, early_stop=False, sees="grade"
        )


RECIPE: Final = Mars2Recipe()
"""The recipe of the reported runs."""

QUICK: Final = Mars2Recipe(
    warm_start=WarmStart(updates=10, rows=16),
    steps=1,
    problems_per_step=4,
    problems=6,
    tokens=24,
    cuts=(6, 12),
)
"""A small version: it shows that everything runs, and nothing else."""
