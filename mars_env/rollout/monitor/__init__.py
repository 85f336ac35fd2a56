"""Watching a run while it plays: metrics, a live view, metrics for dashboards, a trace of every turn.

monitor = Monitor(total=len(jobs))
async with reporting(monitor, logger=TensorBoardLogger("logs"), port=9400):
    agents = monitor.watch(agents)
    async for tree in play_all(game, agents, jobs, seed=0, on_turns=monitor.record_turns):
        monitor.record_tree(tree)
"""

from mars_env.rollout.monitor.monitor import Measured, Monitor, live_view
from mars_env.rollout.monitor.reporting import prometheus_text, reporting
from mars_env.rollout.monitor.trace import Trace

__all__ = ["Measured", "Monitor", "Trace", "live_view", "prometheus_text", "reporting"]
