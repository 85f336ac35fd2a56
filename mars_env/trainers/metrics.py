"""The metrics of a training step, for loggers (`mars_env.loggers`). No torch in here."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from mars_env.envs.rewards import REWARD_FAULT
from mars_env.rollout.pipeline import UpdateBatch
from mars_env.trainers.advantages import AdvantageStats, turn_key
from mars_env.trainers.samples import TurnSample
from mars_env.types import Group, Turn


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """What one training step did.

    Attributes:
        step: Number of steps done, this one included.
        seconds: Wall-clock time of the update, without rollouts.
        roles: By role: ``turns``, ``trained``, ``reward`` (mean of the known ones), ``truncated`` (fraction
            cut off by their own limit), ``tokens`` (sampled, a turn); where there are any, ``interrupted``
            (turns cut off by the context or a filter), of them ``overlong_prompts`` (the prompt alone filled
            the context) and ``little_room`` (it left too little), and ``reward_faults`` (the reward failed).
        policies: By policy: ``loss``, ``grad_norm``, ``learning_rate``, ``updates``, ``completions``,
            ``tokens``, and means over trained tokens: ``ratio``, ``clipped``, ``entropy``, ``rollout_gap``
            (absolute difference of the rollout's and the trainer's log-probabilities), and what the settings
            switch on: ``kl``, ``importance`` and ``vetoed``, ``mastered``. Empty if nothing was trained.
            ``skipped``: updates left out, because a gradient or a log-probability was not finite.
        unscorable: Turns that left their groups (`mars_env.trainers.scorable`), by reason.
    """

    step: int
    seconds: float = 0.0
    advantages: AdvantageStats = field(default_factory=AdvantageStats)
    roles: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    policies: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    unscorable: Mapping[str, int] = field(default_factory=dict)

    def flat(self) -> dict[str, float]:
        """All metrics by name, as loggers take them.

        Example:
            >>> StepMetrics(3, roles={"solver": {"reward": 0.5}}).flat()["role/solver/reward"]
            0.5
        """
        values: dict[str, float] = {"seconds/update": self.seconds}
        values |= {f"advantages/{name}": float(count) for name, count in asdict(self.advantages).items()}
        values |= {f"unscorable/{reason}": float(count) for reason, count in self.unscorable.items()}
        for kind, tables in (("role", self.roles), ("policy", self.policies)):
            values |= {f"{kind}/{of}/{name}": v for of, table in tables.items() for name, v in table.items()}
        return values


def batch_metrics(batch: UpdateBatch) -> dict[str, float]:
    """How old the groups of a batch are, in versions, and how many turns were dropped."""
    return {
        "pipeline/age": sum(batch.ages) / max(1, len(batch.ages)),
        "pipeline/oldest": float(max(batch.ages, default=0)),
        "pipeline/dropped": float(batch.dropped),
    }


def role_metrics(groups: Sequence[Group], samples: Sequence[TurnSample]) -> dict[str, dict[str, float]]:
    """Rewards, lengths and trained turns of a batch, by role; `samples` are those in the loss."""
    trained = {(sample.tree_id, sample.turn_id) for sample in samples}
    turns: defaultdict[str, list[Turn]] = defaultdict(list)
    for group in groups:
        for turn in group.turns:
            turns[turn.role].append(turn)
    table: dict[str, dict[str, float]] = {}
    for role, members in sorted(turns.items()):
        tokens = [c.sampled_tokens for turn in members for c in turn.action.completions]
        rewards = [turn.reward for turn in members if turn.reward is not None]
        table[role] = {
            "turns": float(len(members)),
            "trained": float(sum(turn_key(turn) in trained for turn in members)),
            "truncated": sum(t.action.truncated and not t.action.interrupted for t in members) / len(members),
            "tokens": sum(tokens) / len(members),
        }
        if interrupted := sum(bool(turn.action.interrupted) for turn in members):
            table[role]["interrupted"] = float(interrupted)
            table[role] |= {name: float(n) for name, n in _without_room(members).items() if n}
        if failed := sum(REWARD_FAULT in turn.info for turn in members):
            table[role]["reward_faults"] = float(failed)
        if rewards:
            table[role]["reward"] = sum(rewards) / len(rewards)
    return table


def _without_room(turns: Sequence[Turn]) -> dict[str, int]:
    full = [
        any(not completion.completion_tokens and not completion.token_ids for completion in cut)
        for turn in turns
        if (cut := [c for c in turn.action.completions if c.finish_reason == "context"])
    ]
    return {"overlong_prompts": sum(full), "little_room": len(full) - sum(full)}
