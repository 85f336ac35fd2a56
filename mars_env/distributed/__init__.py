"""Rollouts on several machines: workers, graders and engines on Ray, driven by one process."""

from mars_env.distributed.dispatch import CannotStart
from mars_env.distributed.fleet import Fleet
from mars_env.distributed.settings import Place, Placement, as_placement

__all__ = ["CannotStart", "Fleet", "Place", "Placement", "as_placement"]
