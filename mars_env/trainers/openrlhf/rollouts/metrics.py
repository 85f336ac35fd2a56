"""The team's metrics for OpenRLHF's loggers: rewards, groups, the Verifier, staleness, waiting."""

from collections.abc import Sequence
from dataclasses import asdict

from mars_env.evaluation.metrics import measure
from mars_env.evaluation.trees import is_right, judged_turn
from mars_env.rollout.pipeline import UpdateBatch
from mars_env.trainers.advantages import advantage_stats, over_batch
from mars_env.trainers.config import Credit, estimator_of
from mars_env.trainers.metrics import batch_metrics, role_metrics
from mars_env.trainers.samples import TurnSample
from mars_env.types import Tree, Turn

EVALUATED = (
    "solver_accuracy", "system_accuracy", "gain", "verifier_precision", "verifier_recall", "fix_rate",
    "break_rate", "search_pass@n", "tokens",
)  # fmt: skip
"""Metrics of `mars_env.evaluation.metrics` that an evaluation inside of training logs."""


def training_metrics(
    batch: UpdateBatch, samples: Sequence[TurnSample], config: Credit, *, waited: float, between: float
) -> dict[str, float]:
    """The metrics of one update.

    ``team/ROLE/reward`` and its like are `role_metrics`; ``team/groups/...`` counts what was kept and why the
    rest was not; ``pipeline/mixed`` counts completions that several versions of the policy have sampled;
    ``pipeline/idle_share`` is the share of the time that the trainer waited for rollouts: `waited` of the
    `between` seconds since the previous batch.
    """
    roles = role_metrics(batch.groups, samples)
    stats = advantage_stats(over_batch(batch.groups, config.batch_roles), estimator_of(config)(batch.groups))
    completions = [c for group in batch.groups for turn in group.turns for c in turn.action.completions]
    return {
        **{f"team/{role}/{name}": value for role, table in roles.items() for name, value in table.items()},
        **{f"team/groups/{name}": float(count) for name, count in asdict(stats).items()},
        **batch_metrics(batch),
        "pipeline/mixed": float(sum(len(completion.versions) > 1 for completion in completions)),
        "pipeline/waited": waited,
        "pipeline/idle_share": waited / between if between > 0 else 0.0,
    }


class Verifications:
    """Precision and recall of error detection, from verdicts and the grades of the solutions that they judge.

    "Wrong" is the positive class: precision is the share of rejected solutions that are wrong, recall the
    share of wrong solutions that are rejected. A solution may have been trained before its verification, so
    turns are kept until nothing of their tree is left to train. Verdicts that were cut off, and those on a
    solution whose grade is not known here, are left out.
    """

    def __init__(self) -> None:
        self._trees: dict[str, dict[str, Turn]] = {}

    def metrics(self, batch: UpdateBatch) -> dict[str, float]:
        """``team/verifier/precision`` and ``recall`` of a batch, where they are defined."""
        turns = [turn for group in batch.groups for turn in group.turns]
        for turn in turns:
            self._trees.setdefault(turn.tree_id, {})[turn.id] = turn
        found = [
            (turn.info["verdict"] != "Correct", right)
            for turn in turns
            if "verdict" in turn.info
            and not turn.action.interrupted
            and (right := self._right(turn)) is not None
        ]
        for tree in batch.trained_tree_ids:
            self._trees.pop(tree, None)
        hits = sum(rejects and not right for rejects, right in found)
        counts = {
            "precision": sum(rejects for rejects, _ in found),
            "recall": sum(not right for _, right in found),
        }
        return {f"team/verifier/{name}": hits / count for name, count in counts.items() if count}

    def _right(self, turn: Turn) -> bool | None:
        """Whether the solution that a verification judges is right; None if that is not known here."""
        try:
            judged = judged_turn(turn, self._trees[turn.tree_id])
        except KeyError:  # trained before a resume, or dropped
            return None
        return None if judged is None else is_right(judged)


def evaluation_metrics(trees: Sequence[Tree], name: str) -> dict[str, float]:
    """The metrics of an evaluation on the problem set `name`, from raw grades.

    ``eval_NAME_pass1`` is the System's accuracy, under the name by which OpenRLHF finds the best checkpoint.
    Trees that could not be played or graded are in no rate; ``eval_faults`` and ``eval_unknown`` count them.
    """
    measured = measure(trees)
    found = {}
    for key in EVALUATED:
        if key in measured and (total := sum(of for _, of in measured[key].pairs.values())):
            found[f"eval_{key}"] = sum(value for value, _ in measured[key].pairs.values()) / total
    if "eval_system_accuracy" in found:
        found[f"eval_{name}_pass1"] = found["eval_system_accuracy"]
    grades = [turn.grade for tree in trees for turn in tree.turns]
    found["eval_num_samples"] = float(len(trees))
    found["eval_faults"] = float(sum(bool(tree.fault) for tree in trees))
    found["eval_unknown"] = float(sum(grade is not None and grade.score is None for grade in grades))
    return found
