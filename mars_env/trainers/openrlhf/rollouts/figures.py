"""The team's figures for OpenRLHF's loggers: rewards, groups, the Verifier, staleness, waiting."""

from __future__ import annotations

from collections.abc import Sequence

from mars_env.evaluation.metrics import measure
from mars_env.rollout.pipeline import UpdateBatch
from mars_env.trainers.advantages import advantage_stats
from mars_env.trainers.config import TrainConfig
from mars_env.trainers.estimators import estimator_of
from mars_env.trainers.metrics import role_metrics
from mars_env.trainers.samples import TurnSample
from mars_env.types import Tree, Turn

EVALUATED = (
    "solver_accuracy", "system_accuracy", "gain", "verifier_precision", "verifier_recall", "fix_rate",
    "break_rate", "search_pass@n", "tokens",
)  # fmt: skip
"""Metrics of `mars_env.evaluation.metrics` that an evaluation inside of training logs."""


def training_figures(
    batch: UpdateBatch,
    samples: Sequence[TurnSample],
    config: TrainConfig,
    *,
    waited: float,
    between: float,
) -> dict[str, float]:
    """The figures of one update.

    ``team/ROLE/reward`` and its like are `role_metrics`; ``team/groups/...`` counts what was kept and why the
    rest was not; ``pipeline/mixed`` counts completions that several versions of the policy have sampled;
    ``pipeline/idle_share`` is the share of the time that the trainer waited for rollouts.

    Args:
        batch: What the update trains.
        samples: Its samples.
        config: How turns get their advantages.
        waited: Seconds that the trainer waited for it.
        between: Seconds since the previous batch.
    """
    trained = frozenset((sample.tree_id, sample.turn_id) for sample in samples)
    stats = advantage_stats(batch.groups, estimator_of(config)(batch.groups))
    figures = {
        f"team/{role}/{name}": value
        for role, table in role_metrics(batch.groups, trained).items()
        for name, value in table.items()
    }
    figures |= {f"team/groups/{name}": float(count) for name, count in stats.asdict().items()}
    turns = [turn for group in batch.groups for turn in group.turns]
    completions = [completion for turn in turns for completion in turn.action.completions]
    figures |= verifier_figures(turns)
    figures |= {
        "pipeline/age": sum(batch.ages) / max(1, len(batch.ages)),
        "pipeline/oldest": float(max(batch.ages, default=0)),
        "pipeline/dropped": float(batch.dropped),
        "pipeline/mixed": float(sum(len(completion.versions) > 1 for completion in completions)),
        "pipeline/waited": waited,
        "pipeline/idle_share": waited / between if between > 0 else 0.0,
    }
    return figures


def verifier_figures(turns: Sequence[Turn]) -> dict[str, float]:
    """Precision and recall of error detection, from verifications whose reward is 1 if right and 0 if wrong.

    Turns with other rewards are ignored. "Wrong" is the positive class: precision is the share of rejected
    solutions that are wrong, recall the share of wrong solutions that are rejected.

    Example:
        >>> from mars_env.types import Action
        >>> def verification(verdict, reward):
        ...     return Turn("p#0", "0", None, "g", "verifier_0", "", "p", Action(""), reward=reward,
        ...                 info={"verdict": verdict})
        >>> turns = [verification("Wrong", 1.0), verification("Wrong", 0.0), verification("Correct", 0.0)]
        >>> verifier_figures(turns)
        {'team/verifier/precision': 0.5, 'team/verifier/recall': 0.5}
    """
    verdicts = [
        (turn.info["verdict"] == "Wrong", turn.reward == 1.0)
        for turn in turns
        if "verdict" in turn.info and turn.reward in (0.0, 1.0)
    ]
    hits = sum(rejects and right for rejects, right in verdicts)
    rejected = sum(rejects for rejects, _ in verdicts)
    wrong = sum(rejects == right for rejects, right in verdicts)
    figures = {}
    if rejected:
        figures["team/verifier/precision"] = hits / rejected
    if wrong:
        figures["team/verifier/recall"] = hits / wrong
    return figures


def evaluation_figures(trees: Sequence[Tree], name: str) -> dict[str, float]:
    """The figures of an evaluation, from raw grades.

    ``eval_NAME_pass1`` is the System's accuracy, under the name by which OpenRLHF finds the best checkpoint.
    Trees that could not be played or graded are in no rate; ``eval_faults`` and ``eval_unknown`` count them.

    Args:
        trees: The trees.
        name: Name of the problem set.
    """
    metrics = measure(trees)
    figures = {}
    for key in EVALUATED:
        if key in metrics and (total := sum(of for _, of in metrics[key].pairs.values())):
            figures[f"eval_{key}"] = sum(value for value, _ in metrics[key].pairs.values()) / total
    if "eval_system_accuracy" in figures:
        figures[f"eval_{name}_pass1"] = figures["eval_system_accuracy"]
    turns = [turn for tree in trees for turn in tree.turns]
    figures["eval_num_samples"] = float(len(trees))
    figures["eval_faults"] = float(sum(bool(tree.fault) for tree in trees))
    figures["eval_unknown"] = float(
        sum(turn.grade is not None and turn.grade.score is None for turn in turns)
    )
    return figures
