"""Rollouts on several machines: processes on Ray that act and grade for the process that plays."""

from mars_env.distributed.cluster import CannotStart
from mars_env.distributed.fleet import Fleet
from mars_env.distributed.settings import Place, Placement, RaySamplers, as_placement

__all__ = ["CannotStart", "Fleet", "Place", "Placement", "RaySamplers", "as_placement"]
