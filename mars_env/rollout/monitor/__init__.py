"""Watching a run while it plays: figures, a live view, metrics for dashboards, a trace of every turn.

    monitor = Monitor(total=len(jobs))
    async with reporting(monitor, logger=TensorBoardLogger("logs"), port=9400):
        async for tree in play_all(game, monitor.watch(agents), jobs, seed=0):
            monitor.tell(tree)

It looks on from outside: at the agents as they act, and at the trees as they are finished. The engine
knows nothing of it, and a run without it costs nothing.
"""

from mars_env.rollout.monitor.live_view import live_view
from mars_env.rollout.monitor.monitor import Measured, Monitor
from mars_env.rollout.monitor.reporting import Logger, prometheus_text, reporting
from mars_env.rollout.monitor.trace import Trace

__all__ = ["Logger", "Measured", "Monitor", "Trace", "live_view", "prometheus_text", "reporting"]
