"""Rollouts and training apart: samplers in other processes, perhaps far away (Echo, arXiv 2508.05387)."""

from mars_env.trainers.swarm.capacity import Capacity
from mars_env.trainers.swarm.learner import Swarm, SwarmSettings
from mars_env.trainers.swarm.sampler import SamplerSettings, run_sampler
from mars_env.trainers.swarm.weights import WeightStore

__all__ = ["Capacity", "SamplerSettings", "Swarm", "SwarmSettings", "WeightStore", "run_sampler"]
