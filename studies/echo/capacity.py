"""How many samplers keep a learner busy. After ECHO-2 (arXiv 2602.02192); see docs/machines.md."""

import math

from pydantic import BaseModel, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt


class Capacity(BaseModel, frozen=True, extra="forbid"):
    """A learner, its samplers and the bound of staleness, in seconds.

    With T the time of an update, D that in which weights spread, w the time in which m samplers play one
    step, and S the bound: step s needs weights that have seen s - S updates, so an update comes every
    ``max(T, w, (T + D + w) / (S + 1))`` seconds.

    Example:
        >>> plan = Capacity(update_seconds=30, spread_seconds=10, rollout_seconds=120, max_staleness=1)
        >>> plan.samplers, plan.idle(6), plan.idle(2)
        (6, 0.0, 0.5)
    """

    update_seconds: PositiveFloat
    """Of one update, publishing the weights included."""
    spread_seconds: NonNegativeFloat
    """From the publication of weights until the samplers use them."""
    rollout_seconds: NonNegativeFloat
    """In which one sampler plays all trees of a step; several samplers share them evenly."""
    max_staleness: NonNegativeInt
    """See `mars_env.rollout.PipelineSettings`."""

    @property
    def samplers(self) -> int | None:
        """The fewest samplers with which the learner never waits; None if it always waits."""
        spare = min(self.update_seconds, self.max_staleness * self.update_seconds - self.spread_seconds)
        return max(1, math.ceil(self.rollout_seconds / spare - 1e-9)) if spare > 0 else None

    def period(self, samplers: PositiveInt) -> float:
        """Seconds from one update to the next."""
        update, rollouts = self.update_seconds, self.rollout_seconds / samplers
        return max(update, rollouts, (update + self.spread_seconds + rollouts) / (self.max_staleness + 1))

    def idle(self, samplers: PositiveInt) -> float:
        """Share of its time that the learner waits."""
        return 1 - self.update_seconds / self.period(samplers)
