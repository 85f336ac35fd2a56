"""Many trees at the same time: the engine, its store, and the groups that training compares.

`mars_env.rollout.pipeline.pipeline` has its module's name, so it is not exported here.
"""

from typing import TYPE_CHECKING

from mars_env.lazy import lazy_names

if TYPE_CHECKING:
    from mars_env.rollout.engine import Job as Job
    from mars_env.rollout.engine import collect as collect
    from mars_env.rollout.engine import play as play
    from mars_env.rollout.engine import play_all as play_all
    from mars_env.rollout.groups import groups_of as groups_of
    from mars_env.rollout.pipeline import PipelineSettings as PipelineSettings
    from mars_env.rollout.pipeline import UpdateBatch as UpdateBatch
    from mars_env.rollout.rewarding import regrade as regrade
    from mars_env.rollout.segments import SegmentedModel as SegmentedModel
    from mars_env.rollout.store import Run as Run
    from mars_env.rollout.store import Store as Store
    from mars_env.rollout.store import read_run as read_run
    from mars_env.rollout.store import write_run as write_run

__getattr__, __dir__, __all__ = lazy_names(__name__)
