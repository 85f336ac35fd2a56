"""Rollouts and training apart: samplers in other processes, which may be far away (Echo, arXiv 2508.05387).

`Swarm` is the learner's side, `run_sampler` that of a sampler, `WeightStore` how weights get from one to the
other, `Capacity` the rule that says how many samplers a learner needs.
"""

from mars_env.trainers.swarm.capacity import Capacity
from mars_env.trainers.swarm.learner import Swarm
from mars_env.trainers.swarm.sampler import run_sampler
from mars_env.trainers.swarm.weights import WeightStore

__all__ = ["Capacity", "Swarm", "WeightStore", "run_sampler"]
