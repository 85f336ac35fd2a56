"""Many trees at the same time: the engine, its store, and the groups that training compares.

The agentic pipeline is `mars_env.rollout.pipeline.pipeline`. It has its module's name, so it is not exported
here.
"""

from mars_env.rollout.engine import Job, collect, play, play_all, turn_order
from mars_env.rollout.groups import groups_of
from mars_env.rollout.pipeline import PipelineSettings, UpdateBatch
from mars_env.rollout.rewarding import regrade
from mars_env.rollout.segments import SegmentedModel
from mars_env.rollout.slots import Slots
from mars_env.rollout.store import Run, Store, read_run, write_run

__all__ = [
    "Job",
    "PipelineSettings",
    "Run",
    "SegmentedModel",
    "Slots",
    "Store",
    "UpdateBatch",
    "collect",
    "groups_of",
    "play",
    "play_all",
    "read_run",
    "regrade",
    "turn_order",
    "write_run",
]
